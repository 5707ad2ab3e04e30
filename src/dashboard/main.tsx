// Starts the dashboard in the page.
import { render } from 'preact';
import { App } from './app.tsx';
import { startClock } from './parts/times.tsx';
import { startRouter } from './router.ts';

startRouter();
startClock();
const root = document.querySelector('#app');
if (root) render(<App />, root);

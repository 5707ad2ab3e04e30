// vitest globalSetup: builds the dashboard, as the image does, so that the api serves what is in src/dashboard.
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const CONFIG = fileURLToPath(new URL('../../src/dashboard/vite.config.ts', import.meta.url));

export default async function setup(): Promise<void> {
  await build({ configFile: CONFIG, configLoader: 'runner', logLevel: 'warn' });
}

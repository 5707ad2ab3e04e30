// The page /docs/try: a form that sends a call to this installation with a token that its reader pastes. The script beside
// it (try-page/try.js) fills the form; it is the only one of all pages, and of this origin.
import { readFile } from 'node:fs/promises';
import { heading, html } from './html.ts';
import { page } from './page.ts';

/** The text of the script. */
export async function readTryScript(): Promise<string> {
  return await readFile(new URL('./try-page/try.js', import.meta.url), 'utf8');
}

export function tryPage(): string {
  return page(
    '/docs/try',
    'Try a call',
    html`<h1>Try a call</h1>
<p>Your browser calls <code>/v1</code> of this installation, with the token that you paste. <b>The calls are real.</b> The token stays in its field: nothing stores it, and it is gone when you leave the page. A credential with the preset <code>read</code> is enough to look around.</p>
<noscript><p>This page needs JavaScript. <a href="/docs">The reference</a> has every operation as a line of curl.</p></noscript>
<form id="call" class="call">
<label>Operation <select id="operation"></select></label>
<label>Token <input id="token" type="password" autocomplete="off" spellcheck="false" required></label>
<div id="fields"></div>
<label id="body-field">Body <textarea id="body" rows="12" spellcheck="false"></textarea></label>
<button>Send</button>
</form>
${heading(2, 'The answer')}
<pre id="answer" tabindex="0" role="status" aria-live="polite"></pre>
<script type="module" src="/docs/try.js"></script>`,
  );
}

// The page /docs/webhooks: how an alert looks, and how a receiver checks it in four languages.
import { readFile } from 'node:fs/promises';
import { alert } from '../../contract/openapi/examples/records.ts';
import { code as block, heading, html } from './html.ts';
import { page } from './page.ts';

/** Language to file. The tests run the files as the page shows them. */
export const WEBHOOK_SAMPLES = {
  TypeScript: 'verify.ts',
  Python: 'verify.py',
  Go: 'verify.go',
  'Shell, with OpenSSL': 'verify.sh',
} as const;

export const SAMPLES_FOLDER = new URL('./webhook-samples/', import.meta.url);

export async function webhooksPage(): Promise<string> {
  const samples = await Promise.all(
    Object.entries(WEBHOOK_SAMPLES).map(async ([language, file]) => {
      const code = await readFile(new URL(file, SAMPLES_FOLDER), 'utf8');
      return html`${heading(3, language)}${block(code)}`;
    }),
  );
  return page(
    '/docs/webhooks',
    'Webhooks',
    html`<h1>Webhooks</h1>
<p>An alert is a signed POST, as <a href="https://www.standardwebhooks.com">Standard Webhooks</a> 1.0 describes it. Answer with any 2xx within 10 seconds. After any other answer the alert is sent again: after 5 s, 30 s, 2 min, 10 min, 1 h, 4 h and 12 h. Redirects are not followed. A 410 disables the endpoint.</p>
${heading(2, 'The request')}
<table><tr><th>Header</th><th></th></tr>
<tr><td><code>webhook-id</code></td><td>Identifies the message, on every attempt and every redelivery: skip a message that you have handled already.</td></tr>
<tr><td><code>webhook-timestamp</code></td><td>The time of this attempt, in seconds since 1970. Refuse an attempt that is older than five minutes.</td></tr>
<tr><td><code>webhook-signature</code></td><td><code>v1,</code> and the base64 HMAC-SHA256 of <code>{webhook-id}.{webhook-timestamp}.{body}</code>. During the rotation of a secret there are two signatures with a space between them, the newest first.</td></tr></table>
<p>The key is the 32 bytes that the 43 characters after <code>sigcb_v1_</code> encode in base64url. Libraries for Standard Webhooks take it as base64. Check the signature on the raw bytes of the body, before any parser reads them.</p>
<p>The events of one incident arrive in the order of <code>data.sequence</code>: <code>incident.opened</code>, <code>incident.reopened</code>, <code>incident.acknowledged</code>, <code>incident.recovered</code>, <code>incident.resolved</code>. <code>callback.test</code> is sent on demand. The schema of the body is <a href="/docs#schema-AlertEvent">AlertEvent</a>.</p>
${heading(2, 'The body')}
${block(JSON.stringify(alert, null, 2))}
${heading(2, 'Check a signature')}
${samples}`,
  );
}

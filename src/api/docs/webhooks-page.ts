// The page /docs/webhooks: how an alert looks, and how a receiver checks it in four languages.
import { readFile } from 'node:fs/promises';
import { alert } from '../../contract/openapi/examples/records.ts';
import { code as block, type Html, heading, html } from './html.ts';
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
<p>The events of one incident arrive in the order of <code>data.sequence</code>: <code>incident.opened</code>, <code>incident.escalated</code>, <code>incident.reopened</code>, <code>incident.acknowledged</code>, <code>incident.recovered</code>, <code>incident.resolved</code>. <code>callback.test</code> is sent on demand. The schema of the body is <a href="/docs#schema-AlertEvent">AlertEvent</a>.</p>
${heading(2, 'The body')}
${block(JSON.stringify(alert, null, 2))}
${heading(2, 'Check a signature')}
${samples}
${rotation()}`,
  );
}

function rotation(): Html {
  return html`${heading(2, 'Rotate the signing secret')}
<p>After a rotation the new secret and the one before it both sign, for <code>overlapSeconds</code>: 0 to 900, 300 where nothing is stated. A receiver that knows either of them takes every alert.</p>
<ol>
<li>Read the endpoint and its <code>ETag</code> (<a href="/docs#getCallback">GET</a>).</li>
<li><a href="/docs#rotateSigningSecret">Rotate</a> with that <code>ETag</code> in <code>If-Match</code>, and <code>{"overlapSeconds": 900}</code> where you need the time. The answer has the new secret, once; <code>overlapEndsAt</code> says how long the old one still signs.</li>
<li>Put the new secret into the receiver before then. Two values of <code>webhook-signature</code> are no fault: one that matches is enough.</li>
<li><a href="/docs#testCallback">Send a test.</a></li>
</ol>
<p><b>If the answer is lost</b>: the same call with the same <code>Idempotency-Key</code> says <code>"replayed": true</code> and has no secret, because a secret is shown once. Read the new <code>ETag</code> and rotate again, with a new key. At most two secrets sign, the newest ones: from this second rotation on the secret that your receiver has signs no more, so put the new one in at once.</p>
<p>Each attempt is signed with the secrets that are valid at its moment, and its own <code>webhook-timestamp</code>; the <code>webhook-id</code> stays. So nothing is lost while a receiver refuses signatures: the retries of the next hours are signed with the new secret, and what had its last attempt can be <a href="/docs#redeliver">sent again</a>.</p>
<p>A secret that somebody else may know: <code>{"overlapSeconds": 0}</code> ends it at once. Where a Callback object of Kubernetes manages the endpoint, rotate there: the operator would rotate again to know the secret.</p>`;
}

// /docs/problems: what each error code means and what to do about it. The codes are in src/domain/problem.ts.
import { PROBLEMS, type ProblemCode } from '../../domain/problem.ts';
import { html, prose } from './html.ts';
import { page } from './page.ts';

/** When it comes, and what helps. */
const ADVICE: Record<ProblemCode, readonly [when: string, action: string]> = {
  validation_failed: [
    'A field, header, query parameter or the body itself is not valid. `fieldErrors` names each fault: `path` has dots from the root of the body; headers and query parameters stand as they are.',
    'Correct the fields that are named. The same request fails again.',
  ],
  callback_destination_rejected: [
    'The host of a webhook URL leads to a private or reserved address, or does not resolve.',
    'Use a public address. Who runs the installation can allow private destinations by CIDR or host suffix.',
  ],
  authentication_required: [
    'The request has no credential, or one that is unknown, expired or revoked, or a session token that is not valid.',
    'Send `Authorization: Bearer <token>` with an API credential or a session token.',
  ],
  permission_denied: [
    'The credential or session may see the resource and may not do this to it. Changes need the preset `manage`; projects and credentials need a session of an owner.',
    'Use a credential with the preset that the operation names.',
  ],
  plan_limit_reached: [
    'A limit of the plan is reached. `limit` names the dimension, the limit and what was attempted.',
    'Use less, or move to a larger plan.',
  ],
  service_suspended: [
    'The organization is suspended: writes and beats are refused, reads and the export still work.',
    'Contact support. `limit.serviceState` says which state it is.',
  ],
  not_found: [
    'There is no such resource or address in this project. What a caller may not see looks the same.',
    'Check the id, and the project: a credential has its own, a session names one in `Service-Project`.',
  ],
  method_not_allowed: ['The address exists and has no such method.', 'Use one of the methods in `Allow`.'],
  not_acceptable: [
    '`Accept` excludes every media type that the operation answers.',
    'Admit `application/json`.',
  ],
  conflict: [
    'The request contradicts the current state: a name that is taken, a lifecycle action that is not possible from here, a monitor ID in two jurisdictions, or a first call with the same key that still runs.',
    'Read the resource again. Where `retryable` is true, send the same request with the same key after `Retry-After`.',
  ],
  idempotency_conflict: [
    'The `Idempotency-Key` was used in the last 24 hours for a different request.',
    'Use a new key for a new request, and the same key only to send the same request again.',
  ],
  monitor_archived: ['A beat was sent to an archived monitor.', 'Restore the monitor, or stop the job.'],
  relay_not_configured: [
    'The endpoint needs a messaging relay, and the installation has none.',
    'Use a webhook, or ask who runs the installation for a relay.',
  ],
  draft_closed: ['The draft was applied, canceled or has expired.', 'Create a new draft.'],
  precondition_failed: [
    'The resource has changed since the ETag in `If-Match`, or a stated version is stale.',
    'Read it again, decide anew, and send the new ETag.',
  ],
  payload_too_large: ['The body is over 16 KiB, on the wire or after decompression.', 'Send less at once.'],
  unsupported_media_type: [
    'The body is not `application/json` in UTF-8, or its encoding is neither plain nor gzip.',
    'Send JSON, plain or with `Content-Encoding: gzip`.',
  ],
  precondition_required: [
    'The operation changes a resource and needs `If-Match`.',
    'Read the resource first, and send its ETag.',
  ],
  rate_limited: [
    'The project has made all requests of this minute, or the monitor sent beats faster than the plan allows. `limit` says which.',
    'Wait as long as `Retry-After` says.',
  ],
  internal_error: [
    'A fault of the service. Nothing was stored.',
    'Try again with the same `Idempotency-Key`. If it stays so, report the `correlationId`.',
  ],
  temporarily_unavailable: [
    'The database, a token issuer or the service itself can not answer at this moment.',
    'Wait as long as `Retry-After` says, then send the same request with the same key.',
  ],
};

const CODES = Object.keys(PROBLEMS) as ProblemCode[];

export function problemListPage(): string {
  const row = (code: ProblemCode) =>
    html`<tr><td>${PROBLEMS[code].status}</td><td><a href="/docs/problems/${code}"><code>service.${code}</code></a></td><td>${PROBLEMS[code].title}</td></tr>`;
  return page(
    'Problems',
    html`<h1>Problems</h1>
<p>Every error is <code>application/problem+json</code>. Decide by <code>code</code>, and retry only where <code>retryable</code> is true.</p>
<table><tr><th>Status</th><th>Code</th><th></th></tr>${CODES.map(row)}</table>`,
  );
}

/** Undefined for a code that there is not. */
export function problemPage(name: string): string | undefined {
  const code = CODES.find((one) => one === name);
  if (!code) return undefined;
  const { status, title, retryable } = PROBLEMS[code];
  const [when, action] = ADVICE[code];
  return page(
    title,
    html`<h1>${title}</h1>
<p><code>service.${code}</code>, status ${status}, ${retryable ? 'can be retried' : 'not to be retried unless the body says so'}.</p>
<h2>When it comes</h2><p>${prose(when)}</p>
<h2>What to do</h2><p>${prose(action)}</p>`,
  );
}

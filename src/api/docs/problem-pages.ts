// The pages /docs/problems: when each error code occurs, and what to do. The codes are in src/domain/problem.ts.
import { REFUSALS } from '../../contract/openapi/examples/refusals.ts';
import { problemOf } from '../../contract/openapi/problem-responses.ts';
import { PROBLEMS, type ProblemCode } from '../../domain/problem.ts';
import { code as block, type Html, heading, html, prose } from './html.ts';
import { page } from './page.ts';

/** When the code occurs, and what to do. */
const ADVICE: Record<ProblemCode, readonly [when: string, action: string]> = {
  validation_failed: [
    'A field, a header, a query parameter or the body as a whole is not valid. `fieldErrors` lists the faults: `path` is the path in the body, with dots, or the name of the header or query parameter.',
    'Correct these fields. The same request would fail again.',
  ],
  callback_destination_rejected: [
    'The host of a webhook URL resolves to a private or reserved address, or to none.',
    'Use a public address. The administrator of the installation can allow private destinations by CIDR or host suffix.',
  ],
  authentication_required: [
    'The request has no token, an unknown, expired or revoked API credential, or a session token that is not valid.',
    'Send `Authorization: Bearer <token>` with an API credential or a session token.',
  ],
  permission_denied: [
    'The credential or session may not call this operation. Changes need the preset `manage`. Projects, credentials and the default endpoint need a session of an owner. Origins are set by the operator alone.',
    'Use a credential with the preset that the operation names.',
  ],
  plan_limit_reached: [
    'The request would exceed a limit of the plan, or reads observations that the plan does not keep. `limit` has the dimension, the limit and the attempted value.',
    'Use less, or move to a larger plan. Of the largest one only whoever runs the installation can change what it allows. In place of observations that are not kept, a series has whole hours.',
  ],
  service_suspended: [
    'The organization is suspended. Writes and beats are refused; reads still work.',
    'Pay what is open, or contact support. While the state is `deleting`, export the data. `limit.serviceState` has the state of the organization, `GET /v1/organization/billing` its subscription.',
  ],
  not_found: [
    'The project has no such resource, or the API no such address. A resource that the caller may not see gets the same answer.',
    'Check the id and the project: a credential has its own project, a session names one in `Service-Project`.',
  ],
  method_not_allowed: ['The address exists, but not with this method.', 'Use one of the methods in `Allow`.'],
  not_acceptable: [
    '`Accept` excludes every media type that the operation can answer with.',
    'Admit `application/json`; for the export `application/x-ndjson` or `text/csv`.',
  ],
  conflict: [
    'The request conflicts with the current state: the name is taken, the lifecycle does not allow the action, two jurisdictions have the monitor ID, or the first call with the same key still runs.',
    'Read the resource again. Where `retryable` is true, wait for `Retry-After`, then send the same request with the same key.',
  ],
  idempotency_conflict: [
    'The `Idempotency-Key` was used for a different request in the last 24 hours, or for another beat of the monitor in the last hour.',
    'Use a new key for a new request, and the same key only to send the same request again.',
  ],
  origin_taken: [
    'Another monitor or endpoint of the project stands for the same object of the cluster. The body names it in `monitorId` or `endpointId`.',
    'The operator takes it over by setting its origin. Nobody else meets this error.',
  ],
  monitor_archived: ['A beat was sent to an archived monitor.', 'Restore the monitor, or stop the job.'],
  relay_not_configured: [
    'The kind of the endpoint needs a messaging relay, which this installation does not have.',
    'Use an endpoint of the kind `webhook`.',
  ],
  draft_closed: [
    'The draft is applied, canceled or expired: nothing changes it any more.',
    'Create a new draft.',
  ],
  precondition_failed: [
    'The resource has changed since the read that gave the ETag in `If-Match`, the stated version is not the current one, or the default is not the expected endpoint.',
    'Read the resource again, decide again, and send the new ETag.',
  ],
  payload_too_large: [
    'The body is larger than 16 KiB after decompression, or than the operation takes.',
    'Send a smaller body.',
  ],
  unsupported_media_type: [
    'The body is not `application/json` in UTF-8, or its content encoding is neither plain nor gzip.',
    'Send JSON, plain or with `Content-Encoding: gzip`.',
  ],
  precondition_required: [
    'The operation changes a resource, but the request has no `If-Match`.',
    'Read the resource first, then send its ETag in `If-Match`.',
  ],
  rate_limited: [
    'The project has made all its requests of this minute, the caller or its project has its share of open calls, or the monitor sent beats faster than the plan allows. `limit` has the dimension and the plan.',
    'Wait for `Retry-After`, then send the request again. A success over the limit has moved the deadline and need not be sent again; a failure opens no incident before it is taken.',
  ],
  internal_error: [
    'The service failed. Nothing was stored.',
    'Try again with the same `Idempotency-Key`. If the error persists, report the `correlationId`.',
  ],
  temporarily_unavailable: [
    'The database or a token issuer does not answer, the service is overloaded, or the call took so long that what it had reserved of the plan was free again (`limit.dimension: entitlement_lease`).',
    'Wait for `Retry-After`, then send the same request with the same key.',
  ],
};

const CODES = Object.keys(PROBLEMS) as ProblemCode[];

export function problemListPage(): string {
  const row = (code: ProblemCode) =>
    html`<tr><td>${PROBLEMS[code].status}</td><td><a href="/docs/problems/${code}"><code>service.${code}</code></a></td><td>${PROBLEMS[code].title}</td></tr>`;
  return page(
    '/docs/problems',
    'Problems',
    html`<h1>Problems</h1>
<p>Every error is <code>application/problem+json</code>. Branch on <code>code</code>, and retry only where <code>retryable</code> is true.</p>
<table><tr><th>Status</th><th>Code</th><th></th></tr>${CODES.map(row)}</table>`,
  );
}

/** Undefined for an unknown code. */
export function problemPage(name: string): string | undefined {
  const code = CODES.find((one) => one === name);
  if (!code) return undefined;
  const { status, title, retryable } = PROBLEMS[code];
  const [when, action] = ADVICE[code];
  return page(
    '/docs/problems',
    title,
    html`<h1>${title}</h1>
<p><code>service.${code}</code>, status ${status}, ${retryable ? 'retryable' : 'not retryable, unless the body says so'}.</p>
${heading(2, 'When it occurs')}<p>${prose(when)}</p>
${heading(2, 'What to do')}<p>${prose(action)}</p>
${examplesOf(code)}`,
  );
}

/** The bodies of this code that the operations show. */
function examplesOf(code: ProblemCode): Html {
  const found = Object.values(REFUSALS).filter((refusal) => refusal.code === code);
  if (found.length === 0) return html``;
  return html`${heading(2, 'Examples')}
${found.map((refusal) => html`<p>${prose(refusal.summary)}</p>${block(JSON.stringify(problemOf(refusal), null, 2))}`)}`;
}

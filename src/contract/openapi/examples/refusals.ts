// An example of each refusal, and the operations that can answer it. So the errors of an operation in the document are
// those that it has (docs/contract/calls.md).
import { type FieldError, type Limit, PROBLEMS, type ProblemCode } from '../../../domain/problem.ts';
import type { OperationSpec } from '../../operations/operation.ts';

export interface Refusal {
  code: ProblemCode;
  /** When it is answered. */
  summary: string;
  detail: string;
  fieldErrors?: FieldError[];
  limit?: Limit;
  retryAfterSeconds?: number;
  by: (spec: OperationSpec) => boolean;
}

const always = () => true;
const only =
  (...ids: string[]) =>
  ({ operationId }: OperationSpec) =>
    ids.includes(operationId);
const writes = ({ method }: OperationSpec) => method !== 'GET';
const has = (parameter: string) => (spec: OperationSpec) => parameter in (spec.query?.shape ?? {});
const takesUrl = only('createMonitor', 'setMonitorBinding', 'createCallback', 'updateCallback');

const fault = (path: string, code: string, message: string) => ({
  detail: `The request is not valid. ${path}: ${message}`,
  fieldErrors: [{ code, message, path }],
});
const required = (path: string) => fault(path, 'required', 'This is required: state it.');
const plan = { id: 'free', name: 'Free', version: 1 } as const;

const BAD_REQUEST = {
  missingBody: {
    code: 'validation_failed',
    summary: 'There is no body.',
    ...fault('body', 'required', 'The request has no body: send a JSON object, at least {}.'),
    by: ({ body, bodyOptional }) => body !== undefined && !bodyOptional,
  },
  missingKey: {
    code: 'validation_failed',
    summary: 'There is no `Idempotency-Key`.',
    ...required('Idempotency-Key'),
    by: ({ idempotent }) => idempotent === true,
  },
  malformedETag: {
    code: 'validation_failed',
    summary: '`If-Match` is not one ETag with its quotes.',
    ...fault(
      'If-Match',
      'invalid_format',
      'Must be one ETag from an earlier read, with its quotes, such as "configuration-7".',
    ),
    by: ({ ifMatch }) => ifMatch !== undefined,
  },
  badLimit: {
    code: 'validation_failed',
    summary: 'A query parameter is not valid.',
    ...fault('limit', 'too_big', 'Must be at most 200.'),
    by: has('limit'),
  },
  badWait: {
    code: 'validation_failed',
    summary: 'A query parameter is not valid.',
    ...fault('waitSeconds', 'too_big', 'Must be at most 30.'),
    by: (spec) => has('waitSeconds')(spec) && !has('limit')(spec),
  },
  unknownParameter: {
    code: 'validation_failed',
    summary: 'The query has a parameter that the operation does not know.',
    ...fault('verbose', 'unknown_field', 'Remove it: this operation has no such query parameter.'),
    by: ({ method, query }) => method === 'GET' && query === undefined,
  },
  missingProject: {
    code: 'validation_failed',
    summary: 'A session names no project.',
    ...fault('Service-Project', 'required', 'Name one project of the organization, by its id or name.'),
    by: ({ project }) => project === 'required',
  },
  destination: {
    code: 'callback_destination_rejected',
    summary: 'The host of the URL leads to a private or reserved address, or to none.',
    detail: 'The host leads to a private or reserved address. Use a public receiver.',
    by: takesUrl,
  },
} satisfies Record<string, Refusal>;

const NOT_ALLOWED = {
  noToken: {
    code: 'authentication_required',
    summary: 'There is no valid token.',
    detail:
      'The request has no valid token: send an API credential or a session token in Authorization: Bearer <token>.',
    by: always,
  },
  noRole: {
    code: 'permission_denied',
    summary: 'The session has no role.',
    detail: 'The session has no role in an organization of this installation: ask an owner for a role.',
    by: ({ preset }) => preset === 'read',
  },
  onlyReads: {
    code: 'permission_denied',
    summary: 'The credential may only read.',
    detail:
      'The credential has the preset read. This needs a credential with the preset manage, or a session of a member or owner.',
    by: ({ preset }) => preset === 'manage',
  },
  notOwner: {
    code: 'permission_denied',
    summary: 'The caller is no owner.',
    detail: 'The credential has the preset manage. This needs a session of an owner.',
    by: ({ preset }) => preset === 'owner' || preset === 'owner_or_operator',
  },
  monitorLimit: {
    code: 'plan_limit_reached',
    summary: 'The plan has no monitor left.',
    detail:
      'The plan Free allows 20 active monitors in the organization (paused ones count). Archive or delete one first, or move to a larger plan.',
    limit: {
      dimension: 'active_monitors',
      limit: 20,
      current: 20,
      attempted: 21,
      plan,
      remediation: 'upgrade_plan',
    },
    by: only('createMonitor', 'changeMonitorLifecycle'),
  },
  intervalLimit: {
    code: 'plan_limit_reached',
    summary: 'The interval is shorter than the plan allows.',
    ...planFault(
      'patch.intervalSeconds',
      'The plan Free allows no interval shorter than 300 seconds, and this one has 60. Choose a longer one, or move to a larger plan.',
    ),
    limit: {
      dimension: 'minimum_interval_seconds',
      limit: 300,
      attempted: 60,
      plan,
      remediation: 'increase_interval',
    },
    by: only('updateMonitor'),
  },
  endpointLimit: {
    code: 'plan_limit_reached',
    summary: 'The plan has no callback endpoint left.',
    detail:
      'The plan Free allows 2 callback endpoints in the organization. Remove one first, or move to a larger plan.',
    limit: {
      dimension: 'callback_endpoints',
      limit: 2,
      current: 2,
      attempted: 3,
      plan,
      remediation: 'upgrade_plan',
    },
    by: only('createCallback', 'setMonitorBinding'),
  },
  suspended: {
    code: 'service_suspended',
    summary: 'The organization is suspended.',
    detail: 'The organization is canceled: reads still work; contact support.',
    limit: { dimension: 'service_state', serviceState: 'canceled', remediation: 'contact_support' },
    by: writes,
  },
  notFound: {
    code: 'not_found',
    summary: 'It does not exist, or the caller may not see it.',
    detail: 'There is no such resource in this project.',
    by: always,
  },
  notAcceptable: {
    code: 'not_acceptable',
    summary: '`Accept` excludes JSON.',
    detail: 'Accept excludes application/json, the media type of the answer: admit it.',
    by: always,
  },
} satisfies Record<string, Refusal>;

function planFault(path: string, message: string) {
  return { detail: message, fieldErrors: [{ code: 'plan_limit', message, path }] };
}

const CONFLICT = {
  keyRuns: {
    code: 'conflict',
    summary: 'The first call with the same key still runs.',
    detail: 'The first call with this Idempotency-Key is still running: try again with the same key.',
    retryAfterSeconds: 1,
    by: ({ idempotent }) => idempotent === true,
  },
  keyOfAnother: {
    code: 'idempotency_conflict',
    summary: 'The key was used for another request.',
    detail: 'This Idempotency-Key was used for a different request: use a new key for a new request.',
    by: ({ idempotent }) => idempotent === true,
  },
  twoJurisdictions: {
    code: 'conflict',
    summary: 'Two jurisdictions have a monitor of this id.',
    detail: 'This monitorId exists in more than one jurisdiction: name one with ?jurisdiction=.',
    by: ({ path }) => path.includes('{monitorId}'),
  },
  wrongLifecycle: {
    code: 'conflict',
    summary: 'The lifecycle does not allow the action.',
    detail: 'The monitor is paused: enter_maintenance needs one that is active.',
    by: only('changeMonitorLifecycle'),
  },
  monitorIdTaken: {
    code: 'conflict',
    summary: 'The id is taken.',
    detail:
      'The project already has a monitor nightly-backup in the jurisdiction unrestricted: choose another monitorId.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another monitorId.', path: 'monitorId' }],
    by: only('createMonitor'),
  },
  aliasTaken: {
    code: 'conflict',
    summary: 'The alias is taken.',
    detail: 'Another callback endpoint of this project has the alias on-call: choose another one.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another alias.', path: 'alias' }],
    by: only('createCallback', 'updateCallback'),
  },
  noRelay: {
    code: 'relay_not_configured',
    summary: 'The kind needs a relay.',
    detail: 'This installation has no messaging relay: use an endpoint of kind webhook.',
    by: only('createCallback'),
  },
  endpointDisabled: {
    code: 'conflict',
    summary: 'The endpoint is disabled.',
    detail: 'The callback endpoint is disabled: set its lifecycle to active, then send the test again.',
    by: only('testCallback'),
  },
  endpointGone: {
    code: 'conflict',
    summary: 'The endpoint of the delivery is removed.',
    detail: `The callback endpoint cb_01a2034c2f6b7a319e04d85c1b7f20a6 is removed: nothing can be sent to it.`,
    by: only('redeliver'),
  },
  incidentOver: {
    code: 'conflict',
    summary: 'The incident is over.',
    detail: 'The incident is recovered, so it cannot be acknowledged or resolved: write a note instead.',
    by: only('acknowledgeIncident', 'resolveIncident'),
  },
  nameTaken: {
    code: 'conflict',
    summary: 'The name is taken.',
    detail: 'The organization already has a project with this name: choose another name.',
    fieldErrors: [{ code: 'not_unique', message: 'Choose another name.', path: 'name' }],
    by: only('createProject', 'updateProject'),
  },
  credentialEnded: {
    code: 'conflict',
    summary: 'The credential has ended.',
    detail: 'The credential is revoked: create a new one.',
    by: only('rotateCredential'),
  },
} satisfies Record<string, Refusal>;

const LATER = {
  changed: {
    code: 'precondition_failed',
    summary: 'It has changed since it was read.',
    detail:
      'The resource has changed since this ETag: read it again, then decide whether to repeat the change.',
    by: ({ ifMatch }) => ifMatch !== undefined,
  },
  tooLarge: {
    code: 'payload_too_large',
    summary: 'The body is over 16 KiB.',
    detail: 'The body is too large: send at most 16 KiB.',
    by: writes,
  },
  notJson: {
    code: 'unsupported_media_type',
    summary: 'The body is not JSON.',
    detail: 'The body is not application/json: send it as application/json.',
    by: writes,
  },
  noETag: {
    code: 'precondition_required',
    summary: '`If-Match` is missing.',
    detail: 'Read the resource first, and send its ETag in If-Match.',
    by: ({ ifMatch }) => ifMatch !== undefined,
  },
  tooMany: {
    code: 'rate_limited',
    summary: 'The project has made all its calls of this minute.',
    detail:
      'The project has made all of its 60 requests of this minute: wait for Retry-After, then try again.',
    limit: { dimension: 'api_requests_per_minute', limit: 60, plan, remediation: 'reduce_usage' },
    retryAfterSeconds: 21,
    by: always,
  },
  failed: {
    code: 'internal_error',
    summary: 'A fault of the service.',
    detail: 'The service failed. Try again; if the error persists, report the correlation ID.',
    by: always,
  },
  unavailable: {
    code: 'temporarily_unavailable',
    summary: 'The database, an issuer or the process cannot answer now.',
    detail: 'The database does not answer at this moment: try again.',
    retryAfterSeconds: 1,
    by: always,
  },
} satisfies Record<string, Refusal>;

export const REFUSALS: Readonly<Record<string, Refusal>> = {
  ...BAD_REQUEST,
  ...NOT_ALLOWED,
  ...CONFLICT,
  ...LATER,
};

/** The names of the refusals that an operation can answer, by status. */
export function refusalsOf(spec: OperationSpec): Map<number, string[]> {
  const byStatus = new Map<number, string[]>();
  for (const [name, refusal] of Object.entries(REFUSALS)) {
    if (!refusal.by(spec)) continue;
    const { status } = PROBLEMS[refusal.code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), name]);
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b));
}

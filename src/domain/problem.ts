// Every error that the API answers: code, status, title, whether a retry can help. The pages under /docs/problems
// mirror this list. It builds no HTTP answer: src/api/http/problem.ts does.
import type { Jurisdiction } from './monitor.ts';

/** Codes without the `service.` prefix (docs/contract/calls.md). */
export const PROBLEMS = {
  validation_failed: { status: 400, title: 'The request is not valid', retryable: false },
  callback_destination_rejected: {
    status: 400,
    title: 'The callback destination is not allowed',
    retryable: false,
  },
  authentication_required: { status: 401, title: 'Authentication is required', retryable: false },
  permission_denied: { status: 403, title: 'The credential may not do this', retryable: false },
  plan_limit_reached: { status: 403, title: 'A limit of the plan is reached', retryable: false },
  service_suspended: { status: 403, title: 'The organization is suspended', retryable: false },
  not_found: { status: 404, title: 'There is no such resource', retryable: false },
  method_not_allowed: { status: 405, title: 'The method is not allowed here', retryable: false },
  not_acceptable: { status: 406, title: 'No acceptable media type', retryable: false },
  conflict: { status: 409, title: 'The request conflicts with the current state', retryable: false },
  idempotency_conflict: {
    status: 409,
    title: 'The idempotency key was used for a different request',
    retryable: false,
  },
  origin_taken: { status: 409, title: 'Another resource has this origin', retryable: false },
  monitor_archived: { status: 409, title: 'The monitor is archived', retryable: false },
  relay_not_configured: { status: 409, title: 'No messaging relay is configured', retryable: false },
  draft_closed: { status: 409, title: 'The draft is closed', retryable: false },
  precondition_failed: { status: 412, title: 'The resource has changed', retryable: false },
  payload_too_large: { status: 413, title: 'The body is too large', retryable: false },
  unsupported_media_type: { status: 415, title: 'The media type is not supported', retryable: false },
  precondition_required: { status: 428, title: 'If-Match is required', retryable: false },
  rate_limited: { status: 429, title: 'Too many requests', retryable: true },
  internal_error: { status: 500, title: 'The service failed', retryable: true },
  temporarily_unavailable: { status: 503, title: 'The service is temporarily unavailable', retryable: true },
} as const satisfies Record<string, { status: number; title: string; retryable: boolean }>;

export type ProblemCode = keyof typeof PROBLEMS;

export interface FieldError {
  /** Lower-case snake case, 1 to 128 characters. */
  code: string;
  message: string;
  /** Names joined by dots from the body's root; a header or query parameter by its name; WHOLE_BODY. */
  path: string;
}

export interface Remediation {
  /** Lower-case snake case. */
  code: string;
  message: string;
  /** A page below the address of the API. */
  documentation: string;
}

/** What helps, where a page of /docs says more than the page of the code. */
export const REMEDIATIONS: Partial<Record<ProblemCode, Remediation>> = {
  callback_destination_rejected: {
    code: 'use_public_address',
    message: 'Use an https address that everybody can reach.',
    documentation: '/docs/quickstart#3-create-a-callback-endpoint',
  },
  plan_limit_reached: {
    code: 'compare_plans',
    message: 'See what each plan allows.',
    documentation: '/docs/limits#plans',
  },
  service_suspended: {
    code: 'read_billing',
    message: 'Read the state of the organization and its subscription.',
    documentation: '/docs#getBilling',
  },
  idempotency_conflict: {
    code: 'use_new_key',
    message: 'Use a new key for each new request, and the same key only to send a request again.',
    documentation: '/docs#the-examples',
  },
  precondition_failed: {
    code: 'read_again',
    message: 'Read the resource again, decide again, and send its new version.',
    documentation: '/docs#the-examples',
  },
  precondition_required: {
    code: 'send_etag',
    message: 'Read the resource, and send its ETag in If-Match.',
    documentation: '/docs#the-examples',
  },
  rate_limited: {
    code: 'slow_down',
    message: 'Wait for Retry-After, and see how many calls and beats each plan allows.',
    documentation: '/docs/limits#plans',
  },
};

/** The `remediation` of a problem body; undefined where no page helps. */
export function remediationOf(code: ProblemCode): Remediation[] | undefined {
  const remediation = REMEDIATIONS[code];
  return remediation && [remediation];
}

export const LIMIT_DIMENSIONS = [
  'active_monitors',
  'beat_cadence',
  'minimum_interval_seconds',
  'measurements_per_observation',
  'stored_observations',
  'observation_retention_seconds',
  'callback_endpoints',
  'detector_feature',
  'api_requests_per_minute',
  'mcp_requests_per_minute',
  'service_state',
  'entitlement_lease',
] as const;
export type LimitDimension = (typeof LIMIT_DIMENSIONS)[number];

/** What a caller can do about a reached limit. */
export const LIMIT_REMEDIATIONS = [
  'upgrade_plan',
  'reduce_usage',
  'increase_interval',
  'remove_feature',
  'retry_after_refresh',
  'contact_support',
  'export_data',
] as const;

export const PLAN_IDS = ['free', 'builder', 'smart', 'scale'] as const;
export type PlanId = (typeof PLAN_IDS)[number];

export const SERVICE_STATES = ['active', 'payment_grace', 'abuse_suspended', 'canceled', 'deleting'] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];

/** The `limit` object of a problem body (docs/contract/calls.md). */
export interface Limit {
  dimension: LimitDimension;
  limit?: number;
  current?: number;
  attempted?: number;
  plan?: { id: PlanId; name: string; version: number };
  serviceState?: ServiceState;
  remediation: (typeof LIMIT_REMEDIATIONS)[number];
}

export interface ProblemOptions {
  /** A sentence, 1 to 1,024 characters, that says what to do. Never holds a secret or an internal text. */
  detail: string;
  fieldErrors?: FieldError[];
  limit?: Limit;
  /** Of `origin_taken`: what has the origin. */
  holder?: { monitorId: string } | { endpointId: string };
  /** Of `temporarily_unavailable`: whose database is away. */
  jurisdiction?: Jurisdiction;
  /** 1 to 86,400. Makes the problem retryable, whatever its code says. */
  retryAfterSeconds?: number;
  /** Methods for the `Allow` header of a 405. */
  allow?: string[];
  cause?: unknown;
}

/** An error that reaches the caller as a problem body. Anything else that is thrown becomes `internal_error`. */
export class ProblemError extends Error {
  readonly code: ProblemCode;
  readonly options: ProblemOptions;

  constructor(code: ProblemCode, options: ProblemOptions) {
    super(options.detail, { cause: options.cause });
    this.name = 'ProblemError';
    this.code = code;
    this.options = options;
  }

  get status(): number {
    return PROBLEMS[this.code].status;
  }

  get retryable(): boolean {
    return this.options.retryAfterSeconds !== undefined || PROBLEMS[this.code].retryable;
  }
}

/** The path of a fault of the body as a whole. */
export const WHOLE_BODY = 'body';

/** The most frequent refusal: one field is wrong. An empty path means the body as a whole. */
export function invalidField(path: string, message: string, code = 'invalid'): ProblemError {
  const where = path || WHOLE_BODY;
  return new ProblemError('validation_failed', {
    detail: `The request is not valid. ${where}: ${message}`.slice(0, 1024),
    fieldErrors: [{ code, message, path: where }],
  });
}

/** One body for everything that a principal may not see or that does not exist: the two can't be told apart. */
export function notFound(): ProblemError {
  return new ProblemError('not_found', { detail: 'There is no such resource in this project.' });
}

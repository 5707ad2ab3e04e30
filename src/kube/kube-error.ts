// The one error of every call to the Kubernetes API: what its Status body says, or why there was no answer.

/** `status` is 0 if no answer came; `reason` is then `Unreachable` or `Timeout`. */
export class KubeError extends Error {
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
  readonly details: KubeStatusDetails | undefined;

  constructor(message: string, fields: KubeErrorFields, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KubeError';
    this.status = fields.status;
    this.reason = fields.reason;
    this.retryAfterMs = fields.retryAfterMs;
    this.details = fields.details;
  }
}

export interface KubeErrorFields {
  status: number;
  reason: string;
  retryAfterMs?: number;
  details?: KubeStatusDetails;
}

export interface KubeStatusDetails {
  name?: string;
  kind?: string;
  uid?: string;
  causes?: { reason?: string; message?: string; field?: string }[];
  retryAfterSeconds?: number;
}

interface StatusBody {
  message?: unknown;
  reason?: unknown;
  code?: unknown;
  details?: unknown;
}

/** Reads an HTTP answer that is not 2xx. `body` may be anything; `retryAfter` is the text of the header. */
export function kubeErrorFromAnswer(status: number, body: string, retryAfter?: string): KubeError {
  const parsed = parseStatus(body);
  const error = kubeErrorFromStatus(parsed ?? {}, status);
  const headerMs = retryAfter === undefined ? undefined : parseRetryAfter(retryAfter);
  const message = parsed === undefined ? `HTTP ${status}: ${body.slice(0, 200)}` : error.message;
  return new KubeError(message, {
    status,
    reason: error.reason,
    retryAfterMs: headerMs ?? error.retryAfterMs,
    details: error.details,
  });
}

/** Reads a Status object, which comes in a body or in an ERROR event of a watch. */
export function kubeErrorFromStatus(raw: object, fallbackStatus = 500): KubeError {
  const body: StatusBody = raw;
  const status = typeof body.code === 'number' ? body.code : fallbackStatus;
  const reason = typeof body.reason === 'string' && body.reason !== '' ? body.reason : reasonOf(status);
  const message = typeof body.message === 'string' ? body.message : `HTTP ${status} ${reason}`;
  const details = isDetails(body.details) ? body.details : undefined;
  const seconds = details?.retryAfterSeconds;
  const retryAfterMs = typeof seconds === 'number' && seconds > 0 ? seconds * 1000 : undefined;
  return new KubeError(message, { status, reason, retryAfterMs, details });
}

export const isNotFound = (error: unknown): boolean => hasStatus(error, 404);
/** 409: the object has changed, or was created again, since the caller read it. */
export const isConflict = (error: unknown): boolean => hasStatus(error, 409) && !isAlreadyExists(error);
export const isAlreadyExists = (error: unknown): boolean =>
  error instanceof KubeError && error.reason === 'AlreadyExists';
/** 410: the resourceVersion or the continue token is too old. */
export const isExpired = (error: unknown): boolean => hasStatus(error, 410);
/** 400 or 422: the server refuses the object itself, and will refuse the same call again. */
export const isInvalid = (error: unknown): error is KubeError =>
  hasStatus(error, 400) || hasStatus(error, 422);
export const isForbidden = (error: unknown): error is KubeError => hasStatus(error, 403);

/** 404 of the namespace itself, and not of an object in it or of a resource that the server does not serve. */
export const isNamespaceMissing = (error: unknown): error is KubeError =>
  hasStatus(error, 404) && error.details?.kind === 'namespaces';

/** No answer, 408, 429 or 5xx: the same call may succeed later. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return error.status === 0 || error.status === 408 || error.status === 429 || error.status >= 500;
}

function hasStatus(error: unknown, status: number): error is KubeError {
  return error instanceof KubeError && error.status === status;
}

function isDetails(value: unknown): value is KubeStatusDetails {
  return typeof value === 'object' && value !== null;
}

function parseStatus(body: string): object | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Seconds or an HTTP date (RFC 9110, 10.2.3), in milliseconds; undefined if it is neither. */
function parseRetryAfter(text: string): number | undefined {
  if (/^\d+$/.test(text.trim())) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

const reasons: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

function reasonOf(status: number): string {
  return reasons[status] ?? (status >= 500 ? 'InternalError' : 'Unknown');
}

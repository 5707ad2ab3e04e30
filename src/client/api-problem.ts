// The one error of every call to /v1, and the only table that says what each of them means for a retry.
import type { Problem } from '../contract/resources/problem.ts';
import type { FieldError } from '../domain/problem.ts';

/**
 * `permanent`: the API refuses the request itself; it is not retried until it changes. `passing`: the same call may
 * succeed later. `conflict`: somebody changed the resource in between; read it again. `gone`: the resource does not
 * exist. `unauthorized`: the caller's own rights are missing, whatever the request; retried.
 */
export type ProblemClass = 'permanent' | 'passing' | 'conflict' | 'gone' | 'unauthorized';

export interface ApiProblemFields {
  /** 0: there was no answer. */
  status: number;
  /** `service.validation_failed`; `unreachable` or `timeout` without an answer, `not_sent` if nothing was sent. */
  code: string;
  detail: string;
  fieldErrors?: readonly FieldError[];
  retryAfterSeconds?: number;
  retryable?: boolean;
  limit?: Problem['limit'];
  monitorId?: string;
  endpointId?: string;
  jurisdiction?: Problem['jurisdiction'];
}

export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fieldErrors: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;
  readonly retryable: boolean;
  readonly limit: Problem['limit'];
  /** Of `service.origin_taken`: what has the origin. */
  readonly monitorId: string | undefined;
  readonly endpointId: string | undefined;
  /** Of a 503: it is about the database of this jurisdiction alone. */
  readonly jurisdiction: Problem['jurisdiction'];

  constructor(fields: ApiProblemFields, options?: ErrorOptions) {
    super(`${fields.code}: ${fields.detail}`, options);
    this.name = 'ApiProblem';
    this.status = fields.status;
    this.code = fields.code;
    this.detail = fields.detail;
    this.fieldErrors = fields.fieldErrors ?? [];
    this.retryAfterSeconds = fields.retryAfterSeconds;
    this.retryable = fields.retryable ?? fields.status === 0;
    this.limit = fields.limit;
    this.monitorId = fields.monitorId;
    this.endpointId = fields.endpointId;
    this.jurisdiction = fields.jurisdiction;
  }

  /** The controller reads it: the shortest time until the next try. */
  get retryAfterMs(): number {
    return (this.retryAfterSeconds ?? 0) * 1000;
  }
}

const BY_STATUS: Readonly<Record<number, ProblemClass>> = {
  0: 'passing',
  401: 'unauthorized',
  404: 'gone',
  408: 'passing',
  412: 'conflict',
  425: 'passing',
  428: 'conflict',
  429: 'passing',
};

export function classify(problem: ApiProblem): ProblemClass {
  // The page of a proxy says nothing about the resource: its 404 must not make a monitor count as gone.
  if (problem.code === pageCode(problem.status)) return problem.status === 401 ? 'unauthorized' : 'passing';
  const known = BY_STATUS[problem.status];
  if (known) return known;
  // Also the 409 of a concurrent duplicate: the first call under its key is still running.
  if (problem.status >= 500 || problem.retryable) return 'passing';
  // A caller knows each field that it sends: during an upgrade an api of the version before answers as well.
  if (lacksField(problem)) return 'passing';
  return 'permanent';
}

/** The API does not know a field of the request. */
export function lacksField({ fieldErrors }: ApiProblem): boolean {
  return fieldErrors.some(({ code }) => code === 'unknown_field');
}

/** The code for an answer without a problem body. The API always sends one, so it came from something in between. */
const pageCode = (status: number): string => `http_${status}`;

export function isProblem(error: unknown, ...classes: ProblemClass[]): error is ApiProblem {
  return error instanceof ApiProblem && (classes.length === 0 || classes.includes(classify(error)));
}

/** True if the API was asked and gave no answer. What the caller could not send says nothing about the API. */
export const isSilence = (error: unknown): boolean =>
  error instanceof ApiProblem && error.status === 0 && error.code !== 'not_sent';

export const isGone = (error: unknown): boolean => isProblem(error, 'gone');

/** True for a 409 that says that the value of `path` is taken. */
export function isTaken(error: unknown, path: string): boolean {
  return isProblem(error) && error.status === 409 && error.fieldErrors.some((fault) => fault.path === path);
}

/** From an answer that is not 2xx. `body` may be anything; only a problem body is kept. */
export function problemFromAnswer(status: number, body: string, retryAfter: string | undefined): ApiProblem {
  const problem = parseProblem(body);
  const headerSeconds = Number(retryAfter);
  const retryAfterSeconds = headerSeconds > 0 ? headerSeconds : problem?.retryAfterSeconds;
  if (problem === undefined) {
    // The page of a proxy or load balancer would tell users nothing.
    return new ApiProblem({
      status,
      code: pageCode(status),
      detail: `The API answered ${status}.`,
      retryAfterSeconds,
    });
  }
  const { code, detail, fieldErrors, retryable, limit, monitorId, endpointId, jurisdiction } = problem;
  const holder = { monitorId, endpointId };
  return new ApiProblem({
    status,
    code,
    detail,
    fieldErrors,
    retryable,
    limit,
    retryAfterSeconds,
    ...holder,
    jurisdiction,
  });
}

function parseProblem(body: string): Problem | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed !== 'object' || parsed === null) return undefined;
    const { code, detail } = parsed as Partial<Problem>;
    return typeof code === 'string' && typeof detail === 'string' ? (parsed as Problem) : undefined;
  } catch {
    return undefined;
  }
}

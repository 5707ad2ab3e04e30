// The one error of every call to /v1, and what becomes of each: the only table that says so.
import type { Problem } from '../contract/resources/problem.ts';
import type { FieldError } from '../domain/problem.ts';

/**
 * `permanent`: the object itself is refused; not retried until it changes. `passing`: the same call may succeed
 * later. `conflict`: somebody changed the resource in between; read again. `gone`: it is not there (any more).
 * `unauthorized`: the operator's own rights, no fault of the object; retried.
 */
export type ProblemClass = 'permanent' | 'passing' | 'conflict' | 'gone' | 'unauthorized';

export interface ApiProblemFields {
  /** 0: no answer came. */
  status: number;
  /** `service.validation_failed`; `unreachable` or `timeout` without an answer. */
  code: string;
  detail: string;
  fieldErrors?: readonly FieldError[];
  retryAfterSeconds?: number;
  retryable?: boolean;
  limit?: Problem['limit'];
}

export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fieldErrors: readonly FieldError[];
  readonly retryAfterSeconds: number | undefined;
  readonly retryable: boolean;
  readonly limit: Problem['limit'];

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
  }

  /** Read by the controller: the least time until the next try. */
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
  // A page of something in between says nothing of the object: a 404 of it must not make a monitor gone.
  if (problem.code === pageCode(problem.status)) return problem.status === 401 ? 'unauthorized' : 'passing';
  const known = BY_STATUS[problem.status];
  if (known) return known;
  // Also a 409 while the first call under a key still runs.
  if (problem.status >= 500 || problem.retryable) return 'passing';
  return 'permanent';
}

/** The code of an answer that is no problem body: the API always sends one. */
const pageCode = (status: number): string => `http_${status}`;

export function isProblem(error: unknown, ...classes: ProblemClass[]): error is ApiProblem {
  return error instanceof ApiProblem && (classes.length === 0 || classes.includes(classify(error)));
}

export const isGone = (error: unknown): boolean => isProblem(error, 'gone');

/** True for a 409 that names `path` as what is taken already. */
export function isTaken(error: unknown, path: string): boolean {
  return isProblem(error) && error.status === 409 && error.fieldErrors.some((fault) => fault.path === path);
}

/** From an answer that is not 2xx. `body` may be anything; it is kept only where it is a problem body. */
export function problemFromAnswer(status: number, body: string, retryAfter: string | undefined): ApiProblem {
  const problem = parseProblem(body);
  const headerSeconds = Number(retryAfter);
  const retryAfterSeconds = headerSeconds > 0 ? headerSeconds : problem?.retryAfterSeconds;
  if (problem === undefined) {
    // A proxy or load balancer in between: its page tells users nothing.
    return new ApiProblem({
      status,
      code: pageCode(status),
      detail: `The API answered ${status}.`,
      retryAfterSeconds,
    });
  }
  const { code, detail, fieldErrors, retryable, limit } = problem;
  return new ApiProblem({ status, code, detail, fieldErrors, retryable, limit, retryAfterSeconds });
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

// An example of each refusal, and the operations that can answer it. So the errors of an operation in the document are
// those that it has (docs/contract/calls.md).
import { findPlan, leaseEnded, limitOf } from '../../../domain/plan.ts';
import { PROBLEMS } from '../../../domain/problem.ts';
import type { OperationSpec } from '../../operations/operation.ts';
import { MANY_EXPORTS } from '../../resources/export.ts';
import { BAD_REQUEST } from './bad-requests.ts';
import { CONFLICT } from './conflicts.ts';
import { NOT_ALLOWED } from './not-allowed.ts';
import { always, only, type Refusal, writes } from './refusal.ts';

/** The plan of an installation of one's own. */
const scale = findPlan('scale');

const LATER = {
  changed: {
    code: 'precondition_failed',
    summary: 'It has changed since it was read.',
    detail:
      'The resource has changed since this ETag: read it again, then decide whether to repeat the change.',
    by: ({ ifMatch }) => ifMatch !== undefined,
  },
  otherDefault: {
    code: 'precondition_failed',
    summary: 'The default is not the expected endpoint.',
    detail:
      'The default endpoint is not expectedEndpointId: read that endpoint again, then decide whether to repeat the change.',
    by: only('setDefaultCallback'),
  },
  staleApply: {
    code: 'precondition_failed',
    summary: 'The draft or the monitor has changed since it was read.',
    detail: 'The monitor now has configuration version 3: read it again, then repeat the change.',
    by: only('applyDraft'),
  },
  tooLarge: {
    code: 'payload_too_large',
    summary: 'The body is over 16 KiB.',
    detail: 'The body is too large: send at most 16 KiB.',
    by: (spec) => writes(spec) && spec.maxBodyBytes === undefined,
  },
  muchTooLarge: {
    code: 'payload_too_large',
    summary: 'The body is over 4 MiB.',
    detail: 'The body is too large: send at most 4 MiB.',
    by: only('setOperatorCauses'),
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
    detail: `The project has made all of its ${scale.apiRequestsPerMinute} requests of this minute: wait for Retry-After, then try again.`,
    limit: limitOf(scale, { dimension: 'api_requests_per_minute', limit: scale.apiRequestsPerMinute }),
    retryAfterSeconds: 21,
    by: always,
  },
  ownShare: {
    code: 'rate_limited',
    summary: 'The caller or its project has its share of the calls that may be open at one time.',
    detail:
      'This credential or session has 20 calls open at the same time, its share of what the service can hold now: end some of them, or wait for Retry-After, then try again.',
    retryAfterSeconds: 1,
    by: always,
  },
  manyExports: {
    code: 'rate_limited',
    summary: 'The organization or the caller has its share of the exports that may run at one time.',
    detail: MANY_EXPORTS,
    retryAfterSeconds: 10,
    by: only('exportOrganization'),
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
  leaseEnded: {
    code: 'temporarily_unavailable',
    summary: 'What the call had reserved of the plan ended before it was used.',
    ...leaseEnded().options,
    retryAfterSeconds: 1,
    by: only('createMonitor', 'changeMonitorLifecycle', 'setMonitorBinding'),
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

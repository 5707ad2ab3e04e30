// The version that a caller has read against the one that is there now (If-Match).
import { ProblemError } from '../../domain/problem.ts';

/** Throws `precondition_failed` (412) when somebody has changed the resource since the caller read it. */
export function requireVersion(resource: { version: number }, read: number): void {
  if (resource.version === read) return;
  throw new ProblemError('precondition_failed', {
    detail: 'The resource has changed since this ETag: read it again, and decide anew.',
  });
}

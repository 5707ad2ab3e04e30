// The exports that this process runs at one time: each keeps a page in memory and asks the database for page after page.
import { MANY_EXPORTS } from '../../contract/resources/export.ts';
import { ProblemError } from '../../domain/problem.ts';
import { Shares } from '../../domain/shares.ts';

const MOST = 32;
/** Of one organization. */
const MOST_OF_ONE = 4;
const RETRY_SECONDS = 10;

export class OpenExports {
  readonly #shares = new Shares(MOST);

  /** Returns what ends it. Throws `rate_limited` for an organization that has its share, `temporarily_unavailable` when all are taken. */
  begin(organizationId: string): () => void {
    if (this.#shares.free === 0) throw busy();
    if (this.#shares.heldBy(organizationId) >= MOST_OF_ONE)
      throw new ProblemError('rate_limited', { detail: MANY_EXPORTS, retryAfterSeconds: RETRY_SECONDS });
    this.#shares.take(organizationId);
    return () => this.#shares.giveBack(organizationId);
  }
}

function busy(): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail: 'Too many exports run at the same time: wait for Retry-After, then try again.',
    retryAfterSeconds: RETRY_SECONDS,
  });
}

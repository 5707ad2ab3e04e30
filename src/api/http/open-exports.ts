// The exports that this process runs at one time: each keeps a page in memory and asks the database for page after page.
import { MANY_EXPORTS } from '../../contract/resources/export.ts';
import type { Actor } from '../../domain/incident.ts';
import { ProblemError } from '../../domain/problem.ts';
import { Shares } from '../../domain/shares.ts';

const MOST = 32;
/** Of one organization. */
const MOST_OF_ONE = 4;
/** Of one credential or session in it. */
const MOST_OF_PRINCIPAL = 2;
const RETRY_SECONDS = 10;

export class OpenExports {
  readonly #shares = new Shares(MOST);
  // Only counts: the places are those of the organizations.
  readonly #principals = new Shares(MOST);

  /** Returns what ends it. Throws `rate_limited` for who has his share, `temporarily_unavailable` when all are taken. */
  begin({ organizationId, actor: { kind, id } }: { organizationId: string; actor: Actor }): () => void {
    const principal = `${organizationId} ${kind} ${id}`;
    if (this.#shares.free === 0) throw busy();
    const hasShare =
      this.#shares.heldBy(organizationId) >= MOST_OF_ONE ||
      this.#principals.heldBy(principal) >= MOST_OF_PRINCIPAL;
    if (hasShare)
      throw new ProblemError('rate_limited', { detail: MANY_EXPORTS, retryAfterSeconds: RETRY_SECONDS });
    this.#shares.take(organizationId);
    this.#principals.take(principal);
    return () => {
      this.#shares.giveBack(organizationId);
      this.#principals.giveBack(principal);
    };
  }
}

function busy(): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail: 'Too many exports run at the same time: wait for Retry-After, then try again.',
    retryAfterSeconds: RETRY_SECONDS,
  });
}

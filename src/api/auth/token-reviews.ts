// Asks a Kubernetes API server whether one of its tokens still holds (TokenReview): the signature of a service account's
// token is good until it expires, also after the account, its pod or its Secret is gone (docs/contract/tenancy.md).
import { type IssuerAccess, IssuerConnection, IssuerUnreachable, nameOf } from './issuer-connection.ts';
import { Places } from './places.ts';

/** Of one subject at once: who has many tokens delays himself. */
const MOST_OF_SUBJECT = 2;
/** How long a review waits for those before it. */
const PATIENCE_MS = 3_000;

export interface ReviewSettings extends IssuerAccess {
  audience: string;
  /** Where TokenReviews are created. */
  tokenReviewUri: string;
}

interface Answer {
  status?: { authenticated?: unknown; audiences?: unknown };
}

interface Subject {
  places: Places;
  /** Reviews that run or wait. */
  count: number;
}

export class TokenReviews {
  readonly #settings: ReviewSettings;
  readonly #patienceMs: number;
  readonly #connection: IssuerConnection;
  readonly #subjects = new Map<string, Subject>();

  /** `timeoutMs`: of a review that has a connection. */
  constructor(settings: ReviewSettings, limits: { patienceMs?: number; timeoutMs?: number } = {}) {
    this.#settings = settings;
    this.#patienceMs = limits.patienceMs ?? PATIENCE_MS;
    this.#connection = new IssuerConnection(settings, limits.timeoutMs);
  }

  /** Rejects with IssuerUnreachable. */
  async isAuthenticated(token: string, subject: string): Promise<boolean> {
    const own = this.#subjects.get(subject) ?? { places: new Places(MOST_OF_SUBJECT), count: 0 };
    this.#subjects.set(subject, own);
    own.count += 1;
    const patience = AbortSignal.timeout(this.#patienceMs);
    try {
      return await own.places.run(() => this.#review(token, patience), patience);
    } catch (cause) {
      if (cause instanceof IssuerUnreachable) throw cause;
      throw new IssuerUnreachable(nameOf(this.#settings), cause);
    } finally {
      own.count -= 1;
      if (own.count === 0) this.#subjects.delete(subject);
    }
  }

  async #review(token: string, patience: AbortSignal): Promise<boolean> {
    const { tokenReviewUri, audience } = this.#settings;
    const body = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [audience] },
    };
    const text = await this.#connection.request(tokenReviewUri, { body, patience });
    const { status } = (JSON.parse(text) ?? {}) as Answer;
    // A server that knows nothing of audiences lists none: its answer would be about another audience.
    const audiences = Array.isArray(status?.audiences) ? status.audiences : [];
    return status?.authenticated === true && audiences.includes(audience);
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }
}

// Asks a Kubernetes API server whether one of its tokens still holds (TokenReview): the signature of a service account's
// token is good until it expires, also after the account, its pod or its Secret is gone (docs/contract/tenancy.md).
import { type IssuerAccess, IssuerConnection } from './issuer-connection.ts';

export interface ReviewSettings extends IssuerAccess {
  audience: string;
  /** Where TokenReviews are created. */
  tokenReviewUri: string;
}

interface Answer {
  status?: { authenticated?: unknown; audiences?: unknown };
}

export class TokenReviews {
  readonly #settings: ReviewSettings;
  readonly #connection: IssuerConnection;

  constructor(settings: ReviewSettings) {
    this.#settings = settings;
    this.#connection = new IssuerConnection(settings);
  }

  /** Rejects with IssuerUnreachable. */
  async isAuthenticated(token: string): Promise<boolean> {
    const { tokenReviewUri, audience } = this.#settings;
    const text = await this.#connection.request(tokenReviewUri, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [audience] },
    });
    const { status } = (JSON.parse(text) ?? {}) as Answer;
    // A server that knows nothing of audiences lists none: its answer would be about another audience.
    const audiences = Array.isArray(status?.audiences) ? status.audiences : [];
    return status?.authenticated === true && audiences.includes(audience);
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }
}

// Sends the attempts of webhook endpoints in the standard format: signs what PinnedPost sends. It keeps no state of
// deliveries and decides no retry.
import type { AttemptRequest, AttemptResult, Sender } from '../sender.ts';
import { PinnedPost, type PinnedPostOptions } from './pinned-post.ts';
import { signatureHeaders } from './signature.ts';

export interface WebhookSenderOptions extends PinnedPostOptions {
  /** Milliseconds since 1970; for the timestamp in the signature and for dates in `Retry-After`. */
  now?: () => number;
}

const USER_AGENT = 'Beatkeeper-Webhooks/1';

export class WebhookSender implements Sender {
  readonly #post: PinnedPost;
  readonly #now: () => number;

  constructor(options: WebhookSenderOptions) {
    this.#post = new PinnedPost(options);
    this.#now = options.now ?? Date.now;
  }

  async send({ url, webhookId, body, secrets }: AttemptRequest): Promise<AttemptResult> {
    return await this.#post.send(url, () => {
      const timestampSeconds = this.#now() / 1000;
      const signature = signatureHeaders({ webhookId, timestampSeconds, body, secrets });
      return {
        headers: { 'content-type': 'application/json', 'user-agent': USER_AGENT, ...signature },
        body,
      };
    });
  }

  async close(): Promise<void> {
    await this.#post.close();
  }
}

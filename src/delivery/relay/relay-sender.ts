// Sends the attempts of relay endpoints: publishes a message for people to a topic of the installation's ntfy server. The
// address of that server comes from the settings alone, so that nothing a tenant says leads anywhere else.
import { ntfyMessage } from '../formats/ntfy.ts';
import type { AttemptRequest, AttemptResult, Sender } from '../sender.ts';
import { failure, PinnedPost, type PinnedPostOptions } from '../webhook/pinned-post.ts';
import { RELAY_DESTINATIONS, type Relay } from './relay.ts';

export interface RelaySenderOptions extends Omit<PinnedPostOptions, 'allowed'> {
  /** Undefined: the installation has none any more. Then each attempt fails as `destination_rejected`. */
  relay?: Relay;
}

/** What one sender may publish is used up, by whichever of the organizations. */
const TOO_MANY = 429;
const USER_AGENT = 'Beatkeeper-Relay/1';

export class RelaySender implements Sender {
  readonly #relay: Relay | undefined;
  readonly #post: PinnedPost;

  constructor({ relay, ...options }: RelaySenderOptions) {
    this.#relay = relay;
    this.#post = new PinnedPost({ ...options, allowed: RELAY_DESTINATIONS, maxPools: 1 });
  }

  /** `url` is the topic. The topic stands in the body, because paths end up in the logs of proxies. */
  async send({ url: topic, body }: AttemptRequest): Promise<AttemptResult> {
    const startedAtMs = performance.now();
    const relay = this.#relay;
    if (!relay) return failure('destination_rejected', startedAtMs);
    const content = { headers: headersOf(relay), body: ntfyMessage(topic, body, Date.now()) };
    const { body: answer, ...result } = await this.#post.send(`${relay.url}/`, () => content);
    if (result.delivered && !isPublished(answer)) return failure('protocol', startedAtMs);
    // The answer names the topic, which is a secret. A 410 says something of the server and nothing of this endpoint.
    return { ...result, gone: false, ...(result.statusCode === TOO_MANY ? { refusedForNow: true } : {}) };
  }

  async close(): Promise<void> {
    await this.#post.close();
  }
}

function headersOf({ token }: Relay): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
}

/**
 * ntfy answers with the message that it has published (docs.ntfy.sh/publish); its id and its kind stand before the words.
 * What stands before the relay, such as a page to sign in, may answer 200 too. Of the answer the first KiB is known.
 */
function isPublished(answer = ''): boolean {
  return /^\s*\{/.test(answer) && /"id"\s*:\s*"[^"]/.test(answer) && /"event"\s*:\s*"message"/.test(answer);
}

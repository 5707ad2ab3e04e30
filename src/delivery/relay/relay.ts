// The messaging relay of an installation: an ntfy server (docs/contract/callbacks.md, "The relay"). It sends nothing.
import { randomBytes } from 'node:crypto';

export interface Relay {
  /** Where the service and people's phones reach it, without a slash at its end. */
  url: string;
  /** An access token of ntfy, with which the service may publish. */
  token?: string;
  /** The `notifierId`s that endpoints may name. */
  notifiers: readonly string[];
}

/** `contractVersion` of what is sent to the relay. */
export const RELAY_CONTRACT_VERSION = 'ntfy-1';

/** Lets an installer give rights on all topics of the service at once, such as `bk_*`. */
const TOPIC_PREFIX = 'bk_';

/** A new topic of 256 random bits. Who knows it may read it, so it is a secret. ntfy takes at most 64 characters. */
export function newTopic(): string {
  return TOPIC_PREFIX + randomBytes(32).toString('base64url');
}

/** What a phone subscribes to. */
export function topicUrlOf({ url }: Pick<Relay, 'url'>, topic: string): string {
  return `${url}/${topic}`;
}

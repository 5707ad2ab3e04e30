// The messaging relay of an installation: an ntfy server (docs/contract/callbacks.md, "The relay"). It sends nothing.
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { judgeAddress } from '../webhook/address-guard.ts';
import { parseAllowedDestinations } from '../webhook/allowed-destinations.ts';
import { parseDestination } from '../webhook/destination.ts';

export interface Relay {
  /** Where the service and people's phones reach it, without a slash at its end. */
  url: string;
  /** An access token of ntfy, with which the service may publish. */
  token?: string;
  /** The `notifierId`s that endpoints may name. */
  notifiers: readonly string[];
}

/** The installer has named the relay, so it may be inside of the network. Cloud metadata stays closed. */
export const RELAY_DESTINATIONS = parseAllowedDestinations('0.0.0.0/0,::/0');

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

/**
 * Throws for the address of a relay that every attempt would refuse, with a sentence that does not show it: a password may
 * be in it. Asks no DNS.
 */
export function requireUsableRelay({ url }: Pick<Relay, 'url'>): void {
  const parsed = parseDestination(`${url}/`);
  if ('code' in parsed) throw new Error(`RELAY_URL cannot be used. ${parsed.message}`);
  const { hostname } = parsed;
  if (parsed.url.search !== '')
    throw new Error('RELAY_URL cannot be used. Remove the query (the part after ?).');
  if (isIP(hostname) !== 0 && judgeAddress(hostname, hostname, RELAY_DESTINATIONS) === 'refused')
    throw new Error(
      'RELAY_URL cannot be used. It is an address of cloud metadata, to which nothing is sent.',
    );
}

// Reads the URL of a webhook and finds out where it leads. Used when an endpoint is created or changed
// (checkDestination, which throws problems) and at every send (locateDestination). It opens no connection.
import { isIP } from 'node:net';
import { type FieldError, ProblemError } from '../../domain/problem.ts';
import { judgeAddress } from './address-guard.ts';
import type { AllowedDestinations } from './allowed-destinations.ts';
import { NameResolutionError, type NameResolver } from './name-resolver.ts';

/** docs/contract/callbacks.md. */
const MAX_URL_LENGTH = 512;

export interface Destination {
  url: URL;
  /** As WHATWG URL reads it, without brackets: an IP literal in its canonical spelling, or a name in ASCII. */
  hostname: string;
}

export interface DestinationDeps {
  allowed: AllowedDestinations;
  resolver: NameResolver;
}

/** `plain_http`: an http URL whose host is not an allowed private destination. */
export type Location =
  | { state: 'reachable'; addresses: string[] }
  | { state: 'refused' | 'plain_http' | 'not_found' | 'no_dns' };

/** The parsed URL, or what is wrong with its form. Plain http is judged by where it leads: see `locateDestination`. */
export function parseDestination(text: string): Destination | FieldError {
  const fault = (code: string, message: string): FieldError => ({ code, message, path: 'url' });
  if (text.length === 0) return fault('required', 'State the URL of the receiver.');
  if (text.length > MAX_URL_LENGTH) return fault('too_long', `Use at most ${MAX_URL_LENGTH} characters.`);
  // WHATWG URL drops these silently, and the stored text must be the URL that is called.
  if (/[\p{Cc}\s]/u.test(text)) return fault('invalid_url', 'Remove spaces and control characters.');
  const url = URL.parse(text);
  if (!url) return fault('invalid_url', 'This is not an absolute URL.');
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return fault('invalid_scheme', 'Use an https URL.');
  }
  // The text is checked too, for `https://@host/` and `https://host/#`, which parse to empty parts.
  if (url.username || url.password || authorityOf(text).includes('@')) {
    return fault('user_info_not_allowed', 'Remove the user name and password.');
  }
  if (url.port === '0') return fault('invalid_url', 'Use a port from 1 to 65535.');
  if (text.includes('#')) return fault('fragment_not_allowed', 'Remove the fragment (the part after #).');
  return { url, hostname: url.hostname.replace(/^\[|\]$/g, '') };
}

function authorityOf(text: string): string {
  return /^[a-z]+:[\\/]*([^\\/?]*)/i.exec(text)?.[1] ?? '';
}

/** Resolves the host and judges every address. One bad address refuses all of them (docs/contract/callbacks.md). */
export async function locateDestination(destination: Destination, deps: DestinationDeps): Promise<Location> {
  const { url, hostname } = destination;
  const isPlain = url.protocol === 'http:';
  // An http URL is allowed only for a listed name or a listed address: DNS need not be asked for any other.
  const mayBeAllowed = deps.allowed.blocks.length > 0 || deps.allowed.allowsHost(hostname);
  if (isPlain && !mayBeAllowed) return { state: 'plain_http' };

  let addresses: string[];
  try {
    addresses = isIP(hostname) === 0 ? await deps.resolver.resolve(hostname) : [hostname];
  } catch (error) {
    if (!(error instanceof NameResolutionError)) throw error;
    // Nothing shows that this name may be called over http, so the fault is in the form.
    if (isPlain && !deps.allowed.allowsHost(hostname)) return { state: 'plain_http' };
    return { state: error.notFound ? 'not_found' : 'no_dns' };
  }

  const verdicts = addresses.map((address) => judgeAddress(address, hostname, deps.allowed));
  if (isPlain && verdicts.some((verdict) => verdict !== 'allowed')) return { state: 'plain_http' };
  if (verdicts.length === 0 || verdicts.includes('refused')) return { state: 'refused' };
  return { state: 'reachable', addresses };
}

/**
 * Checks the URL of an endpoint that is created or changed: form first, then where it leads (docs/contract/callbacks.md).
 * `path` names the field in the request body, such as `url` or `callback.url`.
 * Throws `validation_failed` or `callback_destination_rejected`. Waits for DNS as long as the resolver does.
 */
export async function checkDestination(text: string, deps: DestinationDeps, path = 'url'): Promise<void> {
  const parsed = parseDestination(text);
  if ('code' in parsed) throw formProblem({ ...parsed, path });
  const location = await locateDestination(parsed, deps);
  if (location.state === 'plain_http') {
    throw formProblem({ code: 'invalid_scheme', message: 'Use an https URL.', path });
  }
  if (location.state !== 'reachable') throw rejection(location.state, path);
}

function formProblem(fieldError: FieldError): ProblemError {
  return new ProblemError('validation_failed', {
    detail: `The callback URL is not valid. ${fieldError.message}`,
    fieldErrors: [fieldError],
  });
}

const REJECTIONS = {
  refused: ['address_not_allowed', 'The host leads to a private or reserved address. Use a public receiver.'],
  not_found: ['host_not_found', 'The host does not resolve. Check its spelling and its DNS records.'],
  no_dns: ['host_not_resolved', 'The host could not be resolved: DNS gave no answer. Check its DNS records.'],
} as const;

/** The problem names no address: the caller must not learn from us what an internal name resolves to. */
function rejection(state: keyof typeof REJECTIONS, path: string): ProblemError {
  const [code, message] = REJECTIONS[state];
  return new ProblemError('callback_destination_rejected', {
    detail: message,
    fieldErrors: [{ code, message, path }],
  });
}

// Path and query of a request as the caller wrote them. Fastify would read a broken escape in silence: here it is a
// refusal, and a repeated parameter is a list.
import { ProblemError } from '../../domain/problem.ts';

export interface RequestTarget {
  /** Not decoded. */
  path: string;
  /** Decoded, in the order of the URL. */
  pairs: [string, string][];
  /** A repeated parameter is a list. */
  query: Record<string, string | string[]>;
}

const MAX_PARAMETERS = 100;

/** Throws `validation_failed` for escapes that are not UTF-8, NUL characters, and too many parameters. */
export function readTarget(url = '/'): RequestTarget {
  const mark = url.indexOf('?');
  const path = mark < 0 ? url : url.slice(0, mark);
  if (mark < 0) return { path, pairs: [], query: {} };
  const parts = url.slice(mark + 1).split('&');
  if (parts.length > MAX_PARAMETERS)
    throw refusal(`The URL has too many query parameters: send at most ${MAX_PARAMETERS}.`);
  const pairs = parts.filter((part) => part !== '').map(decodePair);
  return { path, pairs, query: collect(pairs) };
}

function decodePair(part: string): [string, string] {
  const equals = part.indexOf('=');
  const [name, value] = equals < 0 ? [part, ''] : [part.slice(0, equals), part.slice(equals + 1)];
  const pair: [string, string] = [decode(name), decode(value)];
  if (pair.some((text) => text.includes('\0'))) throw refusal('The URL has a NUL character: remove it.');
  return pair;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (cause) {
    throw refusal('The URL has an escape that is not UTF-8: encode it again.', cause);
  }
}

function collect(pairs: readonly [string, string][]): Record<string, string | string[]> {
  const lists = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    const list = lists.get(name);
    if (list) list.push(value);
    else lists.set(name, [value]);
  }
  // fromEntries makes own properties, also of a parameter named __proto__.
  return Object.fromEntries(
    [...lists].map(([name, [first = '', ...rest]]) => [name, rest.length === 0 ? first : [first, ...rest]]),
  );
}

function refusal(detail: string, cause?: unknown): ProblemError {
  return new ProblemError('validation_failed', { detail, cause });
}

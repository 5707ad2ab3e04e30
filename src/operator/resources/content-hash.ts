// Short fingerprints of what an object wants and of what a Secret holds. Pure.
import { createHash } from 'node:crypto';

/** SHA-256 of JSON with sorted keys, the first `digits` of its hex. Undefined fields do not count. */
export function contentHash(value: unknown, digits = 32): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, digits);
}

function canonical(value: unknown): string {
  const sorted = JSON.stringify(value, (_key, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return sorted ?? '';
}

/**
 * `status.specHash`: what was applied, and what the Secret was given. The second part is 48 bits of a digest of
 * random secrets of 122 bits and more: it tells an edited Secret from the right one, and nothing else.
 */
export function formatSpecHash(parts: { wanted: string; secret: string }): string {
  return `${parts.wanted}.${parts.secret}`;
}

/** The parts of `formatSpecHash`; empty texts for what is not there. */
export function parseSpecHash(text: string | undefined): { wanted: string; secret: string } {
  const [wanted = '', secret = ''] = (text ?? '').split('.');
  return { wanted, secret };
}

/** Of a Secret's data, for `formatSpecHash`. */
export function secretHash(data: Readonly<Record<string, string>>): string {
  return contentHash(data, 12);
}

// Reads the Retry-After header of a receiver (RFC 9110 10.2.3). Pure.

/** docs/contract/callbacks.md: respected up to one hour. */
export const MAX_RETRY_AFTER_MS = 3_600_000;

/** The form of today and the two obsolete ones, which are to be read too (RFC 9110 5.6.7). The last one is in GMT. */
const DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];

/** Milliseconds to wait from `nowMs` on, 0 to one hour. Undefined where the header is absent or makes no sense. */
export function parseRetryAfter(header: string | string[] | undefined, nowMs: number): number | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, MAX_RETRY_AFTER_MS);
  if (!DATES.some((form) => form.test(text))) return undefined;
  const atMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  if (Number.isNaN(atMs)) return undefined;
  return Math.min(Math.max(atMs - nowMs, 0), MAX_RETRY_AFTER_MS);
}

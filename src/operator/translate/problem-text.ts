// The API's words as the message of a condition or an Event. Pure.
import type { ApiProblem } from '../rest/api-problem.ts';

/** `service.validation_failed: The request is not valid. (callback.url: Must begin with https://.)`; no sentence twice. */
export function problemText(problem: ApiProblem): string {
  const faults = problem.fieldErrors
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .filter((fault) => !problem.detail.includes(fault));
  const more = faults.length > 0 ? ` (${faults.join(' ')})` : '';
  return `${problem.code}: ${problem.detail}${more}`;
}

/**
 * Without an address that a Secret holds, and without its host and path: the API repeats them in its words, and a
 * condition is read by more people than a Secret.
 */
export function withoutAddress(text: string, address: string | undefined): string {
  if (address === undefined || address === '') return text;
  const parts = [address];
  if (URL.canParse(address)) {
    const url = new URL(address);
    parts.push(url.href, url.host, url.hostname, url.pathname, url.search);
  }
  return parts
    .filter((part) => part.length > 3)
    .toSorted((a, b) => b.length - a.length)
    .reduce((words, part) => words.replaceAll(part, '<address>'), text);
}

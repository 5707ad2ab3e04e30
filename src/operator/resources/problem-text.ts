// The API's words as the message of a condition or an Event. Pure.

import type { ApiProblem } from '../../client/api-problem.ts';
import type { FieldError } from '../../domain/problem.ts';

/** `service.validation_failed: The request is not valid. (callback.url: Must begin with https://.)`; no sentence twice. */
export function problemText(problem: ApiProblem): string {
  const { code, detail, fieldErrors } = problem;
  const faults = fieldErrors
    .map((fault) => (detail.includes(`${fault.path}: ${fault.message}`) ? '' : faultText(fault, detail)))
    .filter((fault) => fault !== '');
  return `${code}: ${detail}${faults.length > 0 ? ` (${joined(faults)})` : ''}`;
}

/** Where the detail has the words already, the place alone. */
function faultText({ path, message }: FieldError, detail: string): string {
  if (detail.includes(message)) return path;
  return path === '' ? message : `${path}: ${message}`;
}

/** A sentence ends by itself; a place alone does not. */
function joined(faults: readonly string[]): string {
  return faults.reduce((text, fault) => `${text}${text.endsWith('.') ? ' ' : '; '}${fault}`);
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

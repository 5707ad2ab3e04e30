// Turns a problem of the API into the message of a condition or an Event. Pure.

import type { ApiProblem } from '../../client/api-problem.ts';
import type { FieldError } from '../../domain/problem.ts';
import { remedyOf } from './remedies.ts';

/**
 * `service.validation_failed: The request is not valid. (callback.url: Must begin with https://.)`, without repeated
 * sentences, and with the chart's value that would change it.
 */
export function problemText(problem: ApiProblem): string {
  const { code, detail, fieldErrors } = problem;
  const faults = fieldErrors
    .map((fault) => (detail.includes(`${fault.path}: ${fault.message}`) ? '' : faultText(fault, detail)))
    .filter((fault) => fault !== '');
  const remedy = remedyOf(problem);
  return `${code}: ${detail}${faults.length > 0 ? ` (${joined(faults)})` : ''}${remedy === undefined ? '' : ` ${remedy}`}`;
}

/** Only the path, if the detail already contains the message. */
function faultText({ path, message }: FieldError, detail: string): string {
  if (detail.includes(message)) return path;
  return path === '' ? message : `${path}: ${message}`;
}

/** A sentence ends with a full stop; a path alone needs a separator. */
function joined(faults: readonly string[]): string {
  return faults.reduce((text, fault) => `${text}${text.endsWith('.') ? ' ' : '; '}${fault}`);
}

/**
 * Removes an address that a Secret holds, with its host and path: the API repeats them in its messages, and more people
 * can read a condition than a Secret.
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

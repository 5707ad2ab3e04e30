// Turns zod issues into the `fieldErrors` of a problem body: code in snake_case, a sentence, a path with dots.
// A check of zod without a sentence of its schema gets one here.
import type { z } from 'zod';
import type { FieldError } from '../../domain/problem.ts';

export const MAX_FIELD_ERRORS = 32;
const MAX_PATH = 256;
const MAX_MESSAGE = 512;

type Issue = z.core.$ZodIssue;
type RawIssue = z.core.$ZodRawIssue;

export type Parsed<Output> = { value: Output } | { fieldErrors: FieldError[] };

/**
 * Parses a value of a caller. `root` is the prefix of each path; empty for a body, whose paths start at its root.
 * At most 32 errors; paths and messages that are too long are cut.
 */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  root: readonly string[] = [],
): Parsed<z.output<Schema>> {
  const result = schema.safeParse(value, { error: messageOf });
  if (result.success) return { value: result.data };
  const errors = result.error.issues.flatMap((issue) => fieldErrorsOf(issue, root));
  return { fieldErrors: withoutEchoes(errors).slice(0, MAX_FIELD_ERRORS) };
}

/** zod checks the length even of a value of the wrong type: such a value reports only its type. */
function withoutEchoes(errors: readonly FieldError[]): FieldError[] {
  const isOfType = ({ code }: FieldError) => code === 'invalid_type';
  const wrongType = new Set(errors.filter(isOfType).map(({ path }) => path));
  return errors.filter((error) => isOfType(error) || !wrongType.has(error.path));
}

function fieldErrorsOf(issue: Issue, root: readonly PropertyKey[]): FieldError[] {
  const path = [...root, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const lines = issue.message.split('\n');
    return issue.keys.map((key, index) =>
      fieldError([...path, key], 'unknown_field', lines[index] ?? UNKNOWN_FIELD),
    );
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    return closestBranch(issue.errors).flatMap((inner) => fieldErrorsOf(inner, path));
  }
  if (issue.code === 'invalid_key') {
    return issue.issues.map((inner) => fieldError(path, 'invalid_key', inner.message));
  }
  return [fieldError(path, codeOf(issue), issue.message)];
}

function fieldError(path: readonly PropertyKey[], code: string, message: string): FieldError {
  return {
    code,
    message: message.slice(0, MAX_MESSAGE),
    path: fieldPath(path),
  };
}

/** The parts with dots between them, cut to 256 characters. Half of a surrogate pair at the cut is replaced. */
export function fieldPath(path: readonly PropertyKey[]): string {
  return path.map(String).join('.').slice(0, MAX_PATH).toWellFormed();
}

/** The branch of a union that the caller most likely meant: with the fewest unknown keys, then the fewest issues. */
function closestBranch(branches: readonly Issue[][]): Issue[] {
  const cost = (issues: Issue[]) =>
    issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? 10 * issue.keys.length : 1), 0);
  return [...branches].sort((a, b) => cost(a) - cost(b))[0] ?? [];
}

function codeOf(issue: Issue): string {
  if (issue.message === REQUIRED) return 'required';
  switch (issue.code) {
    case 'too_small':
      return issue.origin === 'string' ? 'too_short' : 'too_small';
    case 'too_big':
      return issue.origin === 'string' ? 'too_long' : issue.origin === 'array' ? 'too_many' : 'too_big';
    case 'invalid_value':
    case 'invalid_union':
      return 'invalid_choice';
    case 'custom': {
      const code: unknown = issue.params?.code;
      return typeof code === 'string' ? code : 'invalid';
    }
    default:
      return issue.code;
  }
}

const REQUIRED = 'This is required: state it.';
const UNKNOWN_FIELD = 'Remove it: it is not known here.';

/**
 * For the `error` of a strict object: sentences for fields that callers look for there in vain. An issue about several
 * fields has one line for each.
 */
export function hintsForUnknown(hints: Readonly<Record<string, string>>) {
  return (issue: RawIssue) => (issue.code === 'unrecognized_keys' ? linesFor(issue.keys, hints) : undefined);
}

function linesFor(keys: readonly string[], hints: Readonly<Record<string, string>>): string {
  return keys.map((key) => (Object.hasOwn(hints, key) ? hints[key] : UNKNOWN_FIELD)).join('\n');
}

/** zod calls this for every issue whose schema has no sentence. */
function messageOf(issue: RawIssue): string {
  if (issue.input === undefined) return REQUIRED;
  switch (issue.code) {
    case 'invalid_type':
      return `Must be ${article(issue.expected)}.`;
    case 'too_small':
      return `Must ${sizeVerb(issue.origin)} at least ${issue.minimum}${sizeUnit(issue.origin)}.`;
    case 'too_big':
      return `Must ${sizeVerb(issue.origin)} at most ${issue.maximum}${sizeUnit(issue.origin)}.`;
    case 'unrecognized_keys':
      return linesFor(issue.keys, {});
    case 'invalid_value':
      return `Must be one of ${issue.values.map(String).join(', ')}.`;
    case 'invalid_union':
      return Array.isArray(issue.options)
        ? `Must be one of ${issue.options.map(String).join(', ')}.`
        : 'Must have a known form.';
    default:
      return 'Must have a valid value.';
  }
}

function article(expected: string): string {
  if (expected === 'int') return 'a whole number';
  if (expected === 'record') return 'an object';
  if (expected === 'number') return 'a finite number';
  return /^[aeiou]/.test(expected) ? `an ${expected}` : `a ${expected}`;
}

function sizeVerb(origin: string): string {
  return origin === 'string' || origin === 'array' ? 'have' : 'be';
}

function sizeUnit(origin: string): string {
  if (origin === 'string') return ' characters';
  return origin === 'array' ? ' items' : '';
}

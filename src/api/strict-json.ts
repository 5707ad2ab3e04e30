// JSON that means the same to every reader (I-JSON, RFC 7493): no duplicate keys, no `__proto__`, no NUL or broken
// characters, no numbers beyond a double, a bounded depth. It knows no schema.
import type { FieldError } from '../domain/problem.ts';
import { ProblemError } from '../domain/problem.ts';

const MAX_DEPTH = 32;

/** The value of a JSON text. Throws `validation_failed` that names the place of the first fault. */
export function readStrictJson(text: string): unknown {
  const value = parse(text);
  new KeyScan(text).run();
  checkValue(value, []);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own words would repeat parts of the body.
    throw refusal([], 'invalid_json', 'The body is not valid JSON.');
  }
}

function checkValue(value: unknown, path: readonly (string | number)[]): void {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw refusal(path, 'too_big', 'Must be a finite number.');
  }
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    checkText(key, path);
    checkValue(inner, [...path, key]);
  }
}

function checkText(text: string, path: readonly (string | number)[]): void {
  if (text.includes('\0')) throw refusal(path, 'invalid_character', 'Remove the NUL character.');
  if (!text.isWellFormed()) throw refusal(path, 'invalid_character', 'Remove the half of a surrogate pair.');
}

interface Level {
  /** Undefined in an array. */
  keys: Set<string> | undefined;
  key: string;
}

/** Looks at the structure of a text that is known to be valid JSON. */
class KeyScan {
  readonly #text: string;
  readonly #levels: Level[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  run(): void {
    // A string with the colon that makes it a key, or one character that opens or closes a level.
    for (const [token, quoted, colon] of this.#text.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/gs)) {
      if (token === '{' || token === '[') this.#open(token);
      else if (token === '}' || token === ']') this.#levels.pop();
      else if (quoted !== undefined && colon !== undefined) this.#addKey(quoted);
    }
  }

  #open(token: string): void {
    if (this.#levels.length === MAX_DEPTH) {
      throw refusal([], 'too_deep', `Nest objects and lists at most ${MAX_DEPTH} deep.`);
    }
    this.#levels.push({ keys: token === '{' ? new Set() : undefined, key: '' });
  }

  #addKey(token: string): void {
    const level = this.#levels.at(-1);
    if (!level?.keys) return;
    const key: unknown = JSON.parse(token);
    level.key = String(key);
    const path = this.#levels.map((one) => one.key).filter((one) => one !== '');
    if (level.key === '__proto__') throw refusal(path, 'unknown_field', 'Remove it: it is not known here.');
    if (level.keys.has(level.key)) throw refusal(path, 'duplicate_key', 'State this field once.');
    level.keys.add(level.key);
  }
}

function refusal(path: readonly (string | number)[], code: string, message: string): ProblemError {
  const fault: FieldError = { code, message, path: path.join('.').toWellFormed().slice(0, 256) };
  const where = fault.path === '' ? '' : `${fault.path}: `;
  const detail = `The request is not valid. ${where}${message}`;
  return new ProblemError('validation_failed', { detail, fieldErrors: [fault] });
}

// Checks the structure of a JSON text for what JSON.parse lets pass: a key stated twice, `__proto__`, unbounded depth
// (I-JSON, RFC 7493). It knows no schema.
import { invalidField, type ProblemError } from './problem.ts';

const MAX_DEPTH = 32;

/** Throws `validation_failed`, which names the place of the first fault. `text` must be valid JSON. */
export function checkJsonStructure(text: string): void {
  new KeyScan(text).run();
}

interface Level {
  /** Undefined in an array. */
  keys: Set<string> | undefined;
  key: string;
}

/** Scans a text that is known to be valid JSON. */
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
      throw jsonRefusal([], 'too_deep', `Nest objects and lists at most ${MAX_DEPTH} deep.`);
    }
    this.#levels.push({ keys: token === '{' ? new Set() : undefined, key: '' });
  }

  #addKey(token: string): void {
    const level = this.#levels.at(-1);
    if (!level?.keys) return;
    const key: unknown = JSON.parse(token);
    level.key = String(key);
    const path = this.#levels.map((one) => one.key).filter((one) => one !== '');
    if (level.key === '__proto__')
      throw jsonRefusal(path, 'unknown_field', 'Remove it: it is not known here.');
    if (level.keys.has(level.key)) throw jsonRefusal(path, 'duplicate_key', 'State this field once.');
    level.keys.add(level.key);
  }
}

/** A refusal of the body for one fault at `path`. */
export function jsonRefusal(path: readonly (string | number)[], code: string, message: string): ProblemError {
  return invalidField(path.join('.').slice(0, 256).toWellFormed(), message, code);
}

// JSON that means the same to every reader (I-JSON, RFC 7493): no duplicate keys, no `__proto__`, no NUL or broken
// characters, no numbers beyond a double, a bounded depth. It knows no schema.
import { checkJsonStructure, jsonRefusal } from '../../domain/json-structure.ts';

/** The value of a JSON text. Throws `validation_failed` that names the place of the first fault. */
export function readStrictJson(text: string): unknown {
  const value = parse(text);
  checkJsonStructure(text);
  checkValue(value, []);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own words would repeat parts of the body.
    throw jsonRefusal([], 'invalid_json', 'The body is not valid JSON.');
  }
}

function checkValue(value: unknown, path: readonly (string | number)[]): void {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw jsonRefusal(path, 'too_big', 'Must be a finite number.');
  }
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    checkText(key, path);
    checkValue(inner, [...path, key]);
  }
}

function checkText(text: string, path: readonly (string | number)[]): void {
  if (text.includes('\0')) throw jsonRefusal(path, 'invalid_character', 'Remove the NUL character.');
  if (!text.isWellFormed())
    throw jsonRefusal(path, 'invalid_character', 'Remove the half of a surrogate pair.');
}

// Cursors of lists: opaque to callers, a position in a keyset inside (docs/contract/calls.md). A list refuses the
// cursor of another list, and text that is no cursor.
import type { z } from 'zod';
import { invalidField } from '../../domain/problem.ts';
import { isStorable } from '../http/request.ts';

/** `list` names the list, and its filter where a position means nothing under another filter. */
export function encodeCursor(list: string, position: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify([list, ...position]), 'utf8').toString('base64url');
}

/** The position, as `schema` (a tuple) describes it; undefined without a cursor. Throws `validation_failed`, in the words of `advice`. */
export function decodeCursor<Schema extends z.ZodType<unknown[]>>(
  list: string,
  schema: Schema,
  cursor: string | undefined,
  advice = 'Must be the nextCursor of an earlier page of the same list.',
): z.output<Schema> | undefined {
  if (cursor === undefined) return undefined;
  const [name, ...position] = readParts(cursor);
  const parsed = schema.safeParse(position);
  const clean = position.every((part) => typeof part !== 'string' || isStorable(part));
  if (name !== list || !parsed.success || !clean) throw invalidField('cursor', advice, 'invalid_cursor');
  return parsed.data;
}

function readParts(cursor: string): unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    return Array.isArray(parts) ? parts : [];
  } catch {
    return []; // not JSON, so not a cursor: it is refused
  }
}

/** Cuts a page from rows that were read with one row more than `limit`. */
export function cutPage<Row>(
  rows: readonly Row[],
  limit: number,
  cursorOf: (last: Row) => string,
): { rows: Row[]; nextCursor?: string } {
  const kept = rows.slice(0, limit);
  const last = kept.at(-1);
  if (rows.length <= limit || last === undefined) return { rows: kept };
  return { rows: kept, nextCursor: cursorOf(last) };
}

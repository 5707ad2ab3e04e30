// Identifiers: UUIDv7 made by the application, so that projects share no sequence.
import { randomUUID } from 'node:crypto';

export type IdPrefix = 'mon' | 'cb' | 'inc' | 'dlv' | 'draft' | 'req' | 'msg';

/** The form of an identifier (docs/contract/calls.md). */
export const IDENTIFIER_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
export const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * A UUIDv7 (RFC 9562 5.7): ordered by time, so that index pages fill in order. The random part comes from a UUIDv4,
 * which Node takes from a pool: ten thousand incidents at one instant need forty thousand ids.
 */
export function newUuid(): string {
  const random = randomUUID();
  const time = timeHex(Date.now());
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}

/**
 * `mon_0192…`: typed prefix and 32 hex digits. `atMs`: of the database's clock where a list has the order of the ids
 * (incidents, deliveries).
 */
export function newId(prefix: IdPrefix, atMs = Date.now()): string {
  const random = randomUUID();
  return `${prefix}_${timeHex(atMs)}7${random.slice(15, 18)}${random.slice(19, 23)}${random.slice(24)}`;
}

/** The ids that `newId` makes at `atMs` or later, and no earlier ones, come after it. */
export function firstIdAt(prefix: IdPrefix, atMs: number): string {
  return `${prefix}_${timeHex(Math.min(Math.max(Math.ceil(atMs), 0), MAX_TIME))}`;
}

const MAX_TIME = 2 ** 48 - 1;

/** Many ids are made in one millisecond. */
function timeHex(ms: number): string {
  if (ms !== last.ms) last = { ms, hex: ms.toString(16).padStart(12, '0') };
  return last.hex;
}
let last = { ms: 0, hex: '0'.repeat(12) };

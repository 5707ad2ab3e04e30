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
 * (incidents, deliveries). Ids of one moment ascend (RFC 9562 6.2, a counter of 24 bits from a random start), so that
 * index pages fill in order where thousands are made at once.
 */
export function newId(prefix: IdPrefix, atMs = Date.now()): string {
  const random = randomUUID();
  counter = (counter + 1) & 0xffffff;
  if (atMs !== last.ms || counter === 0) {
    last = { ms: atMs, hex: timeHex(atMs) };
    counter = Number.parseInt(random.slice(0, 5), 16);
  }
  const count = counter.toString(16).padStart(6, '0');
  return `${prefix}_${last.hex}7${count.slice(0, 3)}8${count.slice(3)}${random.slice(24)}`;
}
let last = { ms: 0, hex: '' };
let counter = 0;

/** The ids that `newId` makes at `atMs` or later, and no earlier ones, come after it. */
export function firstIdAt(prefix: IdPrefix, atMs: number): string {
  return `${prefix}_${timeHex(Math.min(Math.max(Math.ceil(atMs), 0), MAX_TIME))}`;
}

const MAX_TIME = 2 ** 48 - 1;

function timeHex(ms: number): string {
  return ms.toString(16).padStart(12, '0');
}

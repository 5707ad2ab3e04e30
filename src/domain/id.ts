// Identifiers: UUIDv7 made by the application, so that no sequence is shared across projects (design: scale).
import { randomBytes } from 'node:crypto';

export type IdPrefix = 'mon' | 'cb' | 'inc' | 'dlv' | 'draft' | 'req' | 'msg';

/** rest-api.md 2: what an identifier may look like. */
export const IDENTIFIER_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/;
export const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A UUIDv7 (RFC 9562 5.7) as 32 lower-case hex digits. Time-ordered, so that index pages fill in order. */
function uuidV7Hex(): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex');
}

/** `mon_0192…`: typed prefix and 32 hex digits. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${uuidV7Hex()}`;
}

/** A plain UUIDv7, for organizations, projects, monitor keys and credentials. */
export function newUuid(): string {
  const hex = uuidV7Hex();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

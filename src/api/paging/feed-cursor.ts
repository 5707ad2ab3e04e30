// The status feed's cursor as text. It is a Postgres snapshot: `f1.<history>.<snapshot>`, and inside a listing also
// `.<since>.<project>.<monitor key>`. A snapshot is its xmin, what runs and its xmax, `~` between them, in base 36; all but
// xmin are relative to it. One that was cut ends with `~`.
import { invalidField } from '../../domain/problem.ts';
import { DEFAULT_NAME } from '../../service/calls/home-names.ts';
import type { FeedCursors } from '../../service/monitors/joined-feed.ts';
import type { FeedCursor, Snapshot } from '../../service/monitors/status-feed.ts';

const FORM = 'f1';
/** Of several databases: `f2`, and for each `/<name>:<its own cursor>`. */
const JOINED_FORM = 'f2';
/** Two snapshots and the other parts fit the 512 characters of a cursor (docs/contract/calls.md). */
const MAX_SNAPSHOT = 200;

export function encodeFeedCursor({ history, snapshot, listing }: FeedCursor): string {
  const parts = [FORM, history, encodeSnapshot(snapshot)];
  if (listing) {
    const { after, since } = listing;
    parts.push(since ? encodeSnapshot(since) : 'all', packed(after.projectId), packed(after.monitorKey));
  }
  return parts.join('.');
}

/** Throws `validation_failed` for text that encodeFeedCursor did not make. */
export function decodeFeedCursor(text: string): FeedCursor {
  const [form, history = '', snapshotText = '', sinceText, project, key, ...rest] = text.split('.');
  const snapshot = decodeSnapshot(snapshotText);
  if (form !== FORM || !/^[0-9a-f]{16}$/.test(history) || !snapshot || rest.length > 0) throw foreignCursor();
  if (sinceText === undefined) return { history, snapshot };
  const since = sinceText === 'all' ? undefined : decodeSnapshot(sinceText);
  const [projectId, monitorKey] = [unpacked(project), unpacked(key)];
  if ((sinceText !== 'all' && !since) || !projectId || !monitorKey) throw foreignCursor();
  return { history, snapshot, listing: { after: { projectId, monitorKey }, since } };
}

export function encodeJoinedCursor(cursors: FeedCursors): string {
  const parts = [...cursors].map(([name, cursor]) => `/${name}:${encodeFeedCursor(cursor)}`);
  return `${JOINED_FORM}${parts.join('')}`;
}

/** Of any form, `f1` is of the default database: places may have come and gone since it was made. Throws as `decodeFeedCursor` does. */
export function decodeJoinedCursor(text: string): FeedCursors {
  const [form, ...parts] = text.split('/');
  if (form !== JOINED_FORM) return new Map([[DEFAULT_NAME, decodeFeedCursor(text)]]);
  return new Map(
    parts.map((part) => {
      const [name = '', cursor = ''] = part.split(':');
      return [name, decodeFeedCursor(cursor)];
    }),
  );
}

function foreignCursor() {
  return invalidField(
    'cursor',
    'Must be the nextCursor of an earlier call of the status feed.',
    'invalid_cursor',
  );
}

/**
 * Of a snapshot with too many running transactions only the beginning, which is a snapshot too: it ends with the first
 * transaction that does not fit. Changes that committed after that one began are repeated, and none is skipped.
 */
function encodeSnapshot({ xmin, xmax, running, isCut }: Snapshot): string {
  const offsets = [...running, xmax].map((xid) => (xid - xmin).toString(36));
  const text = [xmin.toString(36), ...offsets].join('~');
  if (text.length > MAX_SNAPSHOT) return text.slice(0, text.lastIndexOf('~', MAX_SNAPSHOT) + 1);
  return isCut ? `${text}~` : text;
}

function decodeSnapshot(text: string): Snapshot | undefined {
  const isCut = text.endsWith('~');
  const [xmin = Number.NaN, ...offsets] = (isCut ? text.slice(0, -1) : text).split('~').map(decodeNumber);
  const running = offsets.map((offset) => xmin + offset);
  const snapshot = { xmin, xmax: running.pop() ?? Number.NaN, running };
  if (!isSnapshot(snapshot)) return undefined;
  return isCut ? { ...snapshot, isCut } : snapshot;
}

/** Whether pg_snapshot accepts it: other values would be an error of the database. */
function isSnapshot({ xmin, xmax, running }: Snapshot): boolean {
  const isOrdered = running.every((xid, index) => xid > (running[index - 1] ?? xmin - 1) && xid < xmax);
  return isOrdered && xmin <= xmax && [xmin, xmax, ...running].every(isTransactionId);
}

/** The low 32 bits of a transaction id are never zero. */
function isTransactionId(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && value % 2 ** 32 !== 0;
}

function decodeNumber(text: string): number {
  return /^[0-9a-z]{1,11}$/.test(text) ? Number.parseInt(text, 36) : Number.NaN;
}

function packed(uuid: string): string {
  return uuid.replaceAll('-', '');
}

function unpacked(text: string | undefined): string | undefined {
  const match = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/.exec(text ?? '');
  return match?.slice(1).join('-');
}

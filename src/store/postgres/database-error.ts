// What an error of the database means: a database that is away for a moment (503), a fault of the data, or a case that
// one of our statements expects.
import pg from 'pg';
import { isDistributed } from './engine.ts';

/** The SQLSTATE codes that our statements expect. */
export const SQLSTATE = {
  uniqueViolation: '23505',
  checkViolation: '23514',
  serializationFailure: '40001',
  deadlock: '40P01',
  lockNotAvailable: '55P03',
  queryCanceled: '57014',
  featureNotSupported: '0A000',
  undefinedTable: '42P01',
} as const;

/** What a statement found has changed since this transaction read it: the transaction runs again. */
export class ChangedMeanwhile extends Error {
  readonly code = SQLSTATE.serializationFailure;
}

/** SQLSTATE, or the code of a system error; undefined without one. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/**
 * Errors that Postgres reports for one statement. Its transaction did not commit and never will, and the connection is
 * as good as before. All others, such as a disk that is full while COMMIT is under way, prove neither.
 */
const REFUSED_CODES: ReadonlySet<string> = new Set([
  SQLSTATE.lockNotAvailable,
  SQLSTATE.queryCanceled,
  SQLSTATE.serializationFailure,
  SQLSTATE.deadlock,
]);

/** Whether Postgres itself refused the statement: nothing of its transaction is stored, the connection can be kept. */
export function isRefusedStatement(error: unknown): boolean {
  return REFUSED_CODES.has(codeOf(error) ?? '') || isFaultOfData(error);
}

/** Whether somebody else holds a lock for longer than the statement may wait. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === SQLSTATE.lockNotAvailable;
}

/** Whether the statement took too long: by itself, or because somebody else holds a lock. */
export function isTimedOut(error: unknown): boolean {
  return codeOf(error) === SQLSTATE.queryCanceled || isLockTimeout(error);
}

/**
 * On Citus: whether a statement was refused because its projects are in several shards. What was read of their shards is
 * out of date: one of them was split.
 */
export function isOfManyShards(error: unknown): boolean {
  return isDistributed() && codeOf(error) === SQLSTATE.featureNotSupported;
}

/** SQLSTATE classes 22 (data) and 23 (integrity): the same statement with the same values fails again. */
export function isFaultOfData(error: unknown): boolean {
  return /^2[23]\w{3}$/.test(codeOf(error) ?? '');
}

// SQLSTATE classes: connection exceptions, insufficient resources, operator intervention (57014 is a statement
// time-out), and a lock or serialization that could not be had in time.
const AWAY_CLASSES = new Set(['08', '53', '57']);
const AWAY_CODES: ReadonlySet<string> = new Set([
  SQLSTATE.lockNotAvailable,
  SQLSTATE.serializationFailure,
  SQLSTATE.deadlock,
  '25006',
  '25P03',
]);
const NETWORK_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
// The driver gives these no code.
const DRIVER_WORDS =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end|The server does not support SSL|Connection ended)/;

/** The message of `LimitedClient` for a statement without an answer, in the words of the driver. */
export const HUNG = 'Query read timeout';

/** Whether the database did not answer in time: the only sign of a connection that hangs. */
export function isHungConnection(error: unknown): error is Error {
  return error instanceof Error && error.message === HUNG;
}

/** Whether a later attempt may succeed. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isDatabaseUnavailable)) return true;
  const code = codeOf(error);
  if (code !== undefined) {
    if (NETWORK_CODES.has(code) || AWAY_CODES.has(code)) return true;
    if (/^[0-9A-Z]{5}$/.test(code)) return AWAY_CLASSES.has(code.slice(0, 2));
  }
  return DRIVER_WORDS.test(error.message);
}

// SQLSTATE classes: the login, the database or the schema that is named is refused.
const UNUSABLE_CLASSES = new Set(['28', '3D', '3F']);
// No right to a table. A database that takes no connections.
const UNUSABLE_CODES: ReadonlySet<string> = new Set(['42501', '55000']);
// No such table, column or function.
const UNKNOWN_NAMES: ReadonlySet<string> = new Set([SQLSTATE.undefinedTable, '42703', '42883']);
/** Of Node: the certificate of the server is not accepted. */
const TLS_CODES = /^(CERT_|ERR_TLS_|ERR_SSL_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_SELF_SIGNED_)/;

/**
 * Whether a database answers, and serves nothing that this build asks: it lets nobody in, or gives no rights.
 * Somebody has to mend it; one of several is no reason to fail the others.
 */
export function isDatabaseUnusable(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  if (TLS_CODES.test(code)) return true;
  if (!(error instanceof pg.DatabaseError)) return false;
  return UNUSABLE_CODES.has(code) || UNUSABLE_CLASSES.has(code.slice(0, 2));
}

/** Whether a statement names what the database lacks: the schema is not that of this build, or the statement is at fault. */
export function isUnknownName(error: unknown): boolean {
  return error instanceof pg.DatabaseError && UNKNOWN_NAMES.has(codeOf(error) ?? '');
}

/** Whether Postgres itself refused the statement, and would refuse it again. */
export function isRefusedForGood(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !isDatabaseUnavailable(error);
}

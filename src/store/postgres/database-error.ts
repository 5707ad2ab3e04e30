// What an error of the database means: a database that is away for a moment (503), a fault of the data, or a case that
// one of our statements expects.

/** The SQLSTATE codes that our statements expect. */
export const SQLSTATE = {
  uniqueViolation: '23505',
  serializationFailure: '40001',
  deadlock: '40P01',
  lockNotAvailable: '55P03',
} as const;

/** SQLSTATE, or the code of a system error; undefined without one. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
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
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed|Cannot use a pool after calling end|The server does not support SSL|Connection ended)/;

/** Whether the database did not answer in time: the only sign of a connection that hangs. */
export function isHungConnection(error: unknown): error is Error {
  return error instanceof Error && error.message === 'Query read timeout';
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

// Tells a database that is away for a moment from a fault of ours: the first is a 503, the second a 500.

// SQLSTATE classes: connection exceptions, insufficient resources, operator intervention (57014 is a statement
// time-out), and a lock or serialization that could not be had in time.
const AWAY_CLASSES = new Set(['08', '53', '57']);
const AWAY_CODES = new Set(['55P03', '40001', '40P01', '25006', '25P03']);
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

/** Whether a later attempt may find the database well. */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof AggregateError && error.errors.some(isDatabaseUnavailable)) return true;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string') {
    if (NETWORK_CODES.has(code) || AWAY_CODES.has(code)) return true;
    if (/^[0-9A-Z]{5}$/.test(code)) return AWAY_CLASSES.has(code.slice(0, 2));
  }
  return DRIVER_WORDS.test(error.message);
}

// The log of a process: JSON lines on standard output, without secrets.
// Levels: error needs a person now, warn can wait until morning, info says what happened, debug is for developers.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';

export type Log = Logger;

export interface LogOptions {
  role: string;
  level: string;
}

/** Creates the log of a role. It writes to standard output unless a test passes a `destination`. */
export function createLog({ role, level }: LogOptions, destination?: DestinationStream): Log {
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { streamWrite: redactLine },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

const HIDDEN = '[redacted]';

// The values of these keys, at any depth of the line's JSON.
const SECRET_KEYS =
  /"((?:proxy-)?authorization|(?:set-)?cookie|password|secret|signingSecret|previousSecret|token|publishUrl|databaseUrl|connectionString)":"(?:[^"\\]|\\.)*"/gi;

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [SECRET_KEYS, `"$1":"${HIDDEN}"`],
  // The publish address of a monitor is its only secret, in whatever encoding a client requests it.
  [/\/ping\/[^/?\s"'\\#]+/gi, `/ping/${HIDDEN}`],
  [/\b(Bearer|Basic)\s+[^\s"',\\]+/gi, `$1 ${HIDDEN}`],
  [/\b(bkc_[0-9a-f]{32})_[A-Za-z0-9_-]{20,}/g, `$1_${HIDDEN}`],
  [/\bsigcb_v1_[A-Za-z0-9_-]{20,}/g, `sigcb_v1_${HIDDEN}`],
  [/\bwhsec_[A-Za-z0-9+/=_-]{8,}/g, `whsec_${HIDDEN}`],
  // A topic of the messaging relay.
  [/\bbk_[A-Za-z0-9_-]{20,}/g, `bk_${HIDDEN}`],
  [/\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, HIDDEN],
  // The password in a URL such as postgres://user:password@host.
  [/([a-z][a-z0-9+.-]*:\/\/[^\s:/@"]*):[^\s/"]+@/gi, `$1:${HIDDEN}@`],
];

/** Removes secrets from a line, in any object or error text. The last defense: code must not log secrets at all. */
function redactLine(line: string): string {
  return PATTERNS.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), line);
}

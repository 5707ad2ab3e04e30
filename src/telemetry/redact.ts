// Takes secrets out of log lines, whatever object or error text they stand in. The last wall, not the first:
// code does not log secrets to begin with.

const HIDDEN = '[redacted]';

// Values of these keys, at any depth of the line's JSON.
const SECRET_KEYS =
  /"((?:proxy-)?authorization|(?:set-)?cookie|password|secret|signingSecret|previousSecret|token|publishUrl|databaseUrl|connectionString)":"(?:[^"\\]|\\.)*"/gi;

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [SECRET_KEYS, `"$1":"${HIDDEN}"`],
  // The address of a monitor is its only secret, in whatever encoding it was requested.
  [/\/ping\/[^/?\s"'\\#]+/gi, `/ping/${HIDDEN}`],
  [/\b(Bearer|Basic)\s+[^\s"',\\]+/gi, `$1 ${HIDDEN}`],
  [/\b(bkc_[0-9a-f]{32})_[A-Za-z0-9_-]{20,}/g, `$1_${HIDDEN}`],
  [/\bsigcb_v1_[A-Za-z0-9_-]{20,}/g, `sigcb_v1_${HIDDEN}`],
  [/\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*/g, HIDDEN],
  // The password in an address such as postgres://user:password@host.
  [/([a-z][a-z0-9+.-]*:\/\/[^\s:/@"]*):[^\s/"]+@/gi, `$1:${HIDDEN}@`],
];

/** The line without secrets. */
export function redactLine(line: string): string {
  return PATTERNS.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), line);
}

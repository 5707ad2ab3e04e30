// Text for terminals: tables as kubectl prints them, ages, and text of strangers without control characters. Pure.

/** Columns are as wide as their widest cell; the last one is not padded. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(cellOf));
  const count = Math.max(0, ...cells.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, column) =>
    Math.max(0, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const lineOf = (row: string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('   ')
      .trimEnd();
  return cells.map(lineOf).join('\n');
}

/** One line: a name or a message may have line breaks. */
function cellOf(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}

/**
 * Messages come from jobs and from whoever may write an object: a control character of theirs must not reach the terminal.
 * Line breaks and tabs stay.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about.
  return text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}

/** JSON escapes the control characters below U+0020 itself; this escapes the others too, so that nothing is lost. */
export function formatJson(value: unknown): string {
  return JSON.stringify(value, undefined, 2).replaceAll(
    /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const UNITS = [
  { letter: 'd', seconds: 86_400 },
  { letter: 'h', seconds: 3_600 },
  { letter: 'm', seconds: 60 },
  { letter: 's', seconds: 1 },
] as const;

/** `12s`, `4m`, `3h20m`, `5d`: the greatest unit, and of hours and days the next one where it is not 0. */
export function formatDuration(totalSeconds: number): string {
  const seconds = Math.max(0, Math.floor(totalSeconds));
  const index = UNITS.findIndex((unit) => seconds >= unit.seconds);
  const unit = UNITS[index];
  if (unit === undefined) return '0s';
  const next = UNITS[index + 1];
  const rest = next === undefined ? 0 : Math.floor((seconds % unit.seconds) / next.seconds);
  const head = `${Math.floor(seconds / unit.seconds)}${unit.letter}`;
  return next === undefined || rest === 0 || unit.letter === 'm' ? head : `${head}${rest}${next.letter}`;
}

/** How long ago a time of RFC 3339 is; empty without one. */
export function formatAge(time: string | undefined, nowMs: number): string {
  if (time === undefined) return '';
  return formatDuration((nowMs - Date.parse(time)) / 1_000);
}

/** `2026-11-21 12:41:43 UTC`, as in the sentences of the service. */
export function formatTime(time: string): string {
  return `${new Date(time).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

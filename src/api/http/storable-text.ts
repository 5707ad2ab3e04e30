// Which texts Postgres can store. Bodies are checked when they are read (body.ts); this is for texts from elsewhere.

/** False for a text with a NUL or with half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

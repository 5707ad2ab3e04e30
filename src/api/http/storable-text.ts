// What Postgres can keep as text: of what comes from outside by another way than a body (strict-json.ts).

/** False for texts with NUL or with half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

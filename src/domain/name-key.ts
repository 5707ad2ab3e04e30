// How names are compared: of projects (docs/contract/tenancy.md), in the store and in the operator, and of monitors in
// lists.

/**
 * Unicode's full case folding, as far as names need it. `toLowerCase` alone keeps "Straße" and "STRASSE" apart, and
 * writes a final sigma as another letter than one inside a word, so that a prefix would not be found.
 */
export function foldCase(text: string): string {
  return text.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ');
}

/** Two project names with the same key are the same name: Unicode form, case and number of spaces do not matter. */
export function projectNameKey(name: string): string {
  const spaced = name.normalize('NFKC').trim().replaceAll(/\s+/gu, ' ');
  // Folding can decompose a character that has no capital form.
  return foldCase(spaced).normalize('NFKC');
}

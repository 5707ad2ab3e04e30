// Names as they are compared: of projects (docs/contract/tenancy.md) by store and operator alike, of monitors in lists.

/**
 * Unicode's full case folding, as far as names have it: `toLowerCase` alone keeps "Straße" and "STRASSE" apart, and
 * writes a sigma at the end of a word as another letter than inside of it, so that a beginning would not be found.
 */
export function foldCase(text: string): string {
  return text.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ');
}

/** What makes two names of projects the same: Unicode form, case and the number of spaces do not matter. */
export function projectNameKey(name: string): string {
  const spaced = name.normalize('NFKC').trim().replaceAll(/\s+/gu, ' ');
  // Folding can take a character apart that has no capital of its own.
  return foldCase(spaced).normalize('NFKC');
}

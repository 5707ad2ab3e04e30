// Text as it is compared where case does not matter: names of projects and of monitors.

/**
 * Unicode's full case folding, as far as names have it: `toLowerCase` alone keeps "Straße" and "STRASSE" apart, and
 * writes a sigma at the end of a word as another letter than inside of it, so that a beginning would not be found.
 */
export function foldCase(text: string): string {
  return text.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ');
}

// Bodies in chunks of a chosen length, and texts of which every part is known.

export const CHUNKED = 'Transfer-Encoding: chunked';

export const digits = (count: number) =>
  Array.from({ length: count }, (_, place) => String(place % 10)).join('');

/** The chunks of the text, without the one that ends the body. */
export function inChunks(text: string, length: number): string {
  let chunks = '';
  for (let at = 0; at < text.length; at += length) {
    const chunk = text.slice(at, at + length);
    chunks += `${chunk.length.toString(16)}\r\n${chunk}\r\n`;
  }
  return chunks;
}

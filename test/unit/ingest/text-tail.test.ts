// The end of a text in bounded memory is the end of the whole text, however it is cut and whatever its bytes are.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MAX_MESSAGE_CHARACTERS, messageOf } from '../../../src/domain/beat-input.ts';
import { TextTail } from '../../../src/ingest/body-reader.ts';

/** The contract's words: of the text that the bytes are, the last 1,024 characters. */
function lastCharacters(bytes: Buffer): string | undefined {
  const characters = [...bytes.toString('utf8').replaceAll('\0', '\uFFFD')];
  return characters.slice(-MAX_MESSAGE_CHARACTERS).join('') || undefined;
}

/** Characters of one to four bytes, parts of them, and bytes that no character has. */
const piece = fc.constantFrom(
  ...['a', '\0', 'ä', '€', '😀', '\ufeff'].map((text) => Buffer.from(text)),
  ...['80', 'c3', 'e282', 'f09f98', 'ff', 'eda080', 'f8888080'].map((hex) => Buffer.from(hex, 'hex')),
);
/** As long as a message and more, and then some bytes that are cut anywhere. */
const text = fc
  .tuple(fc.array(fc.tuple(piece, fc.integer({ min: 1, max: 3_000 })), { maxLength: 4 }), fc.array(piece))
  .map(([runs, end]) =>
    Buffer.concat([...runs.flatMap(([bytes, count]) => Array<Buffer>(count).fill(bytes)), ...end]),
  );
const cuts = fc.array(fc.integer({ min: 1, max: 9_000 }), { minLength: 1, maxLength: 5 });

it('a text that arrives in any parts keeps the last 1,024 characters of the whole', () => {
  fc.assert(
    fc.property(text, cuts, (bytes, sizes) => {
      const tail = new TextTail();
      for (let from = 0, index = 0; from < bytes.length; index += 1) {
        const size = sizes[index % sizes.length] ?? 1;
        tail.add(bytes.subarray(from, from + size));
        from += size;
      }
      expect(messageOf(tail.text)).toBe(lastCharacters(bytes));
    }),
    { numRuns: 300 },
  );
});

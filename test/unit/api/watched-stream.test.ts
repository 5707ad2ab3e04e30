// A stream that its reader cannot keep (src/api/http/watched-stream.ts).
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { describe, expect, it } from 'vitest';
import { watchedStream } from '../../../src/api/http/watched-stream.ts';

const NEVER = 2 ** 31;
const admitted = async () => undefined;
async function* endless() {
  for (;;) yield 'piece';
}

describe('watchedStream', () => {
  it('breaks off where nobody reads, once its caller may not call any more', async () => {
    let checks = 0;
    const revoked = async () => {
      checks += 1;
      if (checks === 3) throw new Error('revoked');
    };
    const stream = watchedStream(endless(), revoked, { checkMs: 1, pieceMs: NEVER });
    await expect(finished(stream)).rejects.toThrow('revoked');
  });

  it('breaks off where its reader has taken one piece and takes no more', async () => {
    const stream = watchedStream(endless(), admitted, { checkMs: 1, pieceMs: 5 });
    await once(stream, 'readable');
    stream.read();
    await expect(finished(stream)).rejects.toThrow('too slow');
  });

  it('breaks off where its reader does not take the last piece', async () => {
    const last = async function* () {
      yield 'last';
    };
    const stream = watchedStream(last(), admitted, { checkMs: 1, pieceMs: 5 });
    await once(stream, 'readable');
    await expect(finished(stream)).rejects.toThrow('too slow');
  });

  it('waits for a piece that takes long to make, and ends with the last one', async () => {
    let checks = 0;
    let isChecked = () => {};
    const checked = new Promise<void>((resolve) => {
      isChecked = resolve;
    });
    const slow = async function* () {
      await checked;
      yield 'late';
    };
    const check = async () => {
      checks += 1;
      if (checks === 3) isChecked();
    };
    const text = await watchedStream(slow(), check, { checkMs: 1, pieceMs: NEVER }).toArray();
    expect(text).toEqual(['late']);
  });
});

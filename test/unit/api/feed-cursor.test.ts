// The cursor of the status feed: it decodes to what was encoded, within 512 characters of the contract's alphabet.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeFeedCursor, encodeFeedCursor } from '../../../src/api/paging/feed-cursor.ts';
import { cursor as contractCursor } from '../../../src/contract/fields/paging.ts';
import type { FeedCursor } from '../../../src/service/monitors/status-feed.ts';

/** Snapshots with at most `running` open transactions. Low 32 bits of zero are no transaction id. */
const snapshots = (running: number) =>
  fc
    .record({
      xmin: fc.integer({ min: 3, max: 2 ** 31 }),
      epoch: fc.integer({ min: 0, max: 100_000 }),
      gaps: fc.array(fc.integer({ min: 1, max: 1_000 }), { maxLength: running }),
    })
    .map(({ xmin, epoch, gaps }) => {
      const first = epoch * 2 ** 32 + xmin;
      const open: number[] = [];
      for (const gap of gaps) open.push((open.at(-1) ?? first) + gap);
      return { xmin: first, xmax: (open.at(-1) ?? first) + 1, running: open };
    });

const cursors = (running: number): fc.Arbitrary<FeedCursor> =>
  fc.record(
    {
      history: hex(16),
      snapshot: snapshots(running),
      listing: fc.record(
        {
          after: fc.record({ projectId: fc.uuid(), monitorKey: fc.uuid() }),
          since: snapshots(running),
        },
        { requiredKeys: ['after'] },
      ),
    },
    { requiredKeys: ['history', 'snapshot'] },
  );

function hex(length: number) {
  return fc
    .array(fc.constantFrom(...'0123456789abcdef'), { minLength: length, maxLength: length })
    .map((digits) => digits.join(''));
}

describe('the cursor of the status feed', () => {
  it('a feed cursor decodes to what was encoded', () => {
    fc.assert(
      fc.property(cursors(30), (cursor) => {
        expect(decodeFeedCursor(encodeFeedCursor(cursor))).toEqual(cursor);
      }),
    );
  });

  it('a feed cursor is valid in the contract however many transactions run', () => {
    fc.assert(
      fc.property(cursors(400), (cursor) => {
        expect(contractCursor.safeParse(encodeFeedCursor(cursor)).success).toBe(true);
      }),
    );
  });

  it('a feed cursor over too many running transactions goes back to the oldest one, which repeats and never skips', () => {
    const running = Array.from({ length: 500 }, (_, index) => 1_000 + index * 2);
    const text = encodeFeedCursor({
      history: '0'.repeat(16),
      snapshot: { xmin: 1_000, xmax: 2_000, running },
    });
    expect(decodeFeedCursor(text).snapshot).toEqual({ xmin: 1_000, xmax: 1_000, running: [] });
  });

  it('a text that is not a feed cursor is refused before it reaches the database', () => {
    const history = '0123456789abcdef';
    const texts = [
      'x',
      'f1',
      `f1.${history}`,
      `f1.${history}.`,
      `f1.${history}.0~1`,
      `f1.${history}.a`,
      `f1.${history}.a~b~c`, // one that runs after the end
      `f1.${history}.a~5~3~2`, // not in order
      `f1.${history}.1z141z4~0`, // 2^32: no transaction id
      `f1.${history}.zzzzzzzzzzz~1`,
      `f1.${history}.a~5.all`,
      `f1.${history}.a~5.all.1234.5678`,
      `f1.${history}.a~5.b.${'0'.repeat(32)}.${'0'.repeat(32)}`,
      `f1.${history}.a~5.all.${'0'.repeat(32)}.${'0'.repeat(32)}.more`,
      `f2.${history}.a~5`,
    ];
    for (const text of texts) expect(() => decodeFeedCursor(text), text).toThrow('cursor');
  });
});

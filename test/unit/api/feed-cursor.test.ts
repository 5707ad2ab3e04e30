// The cursor of the status feed: it decodes to what was encoded, within 512 characters of the contract's alphabet.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeFeedCursor, encodeFeedCursor } from '../../../src/api/paging/feed-cursor.ts';
import { cursor as contractCursor } from '../../../src/contract/fields/paging.ts';
import type { FeedCursor, Snapshot } from '../../../src/service/monitors/status-feed.ts';

/** Snapshots with at most `running` open transactions. Low 32 bits of zero are no transaction id. */
const snapshots = (running: number) =>
  fc
    .record({
      xmin: fc.integer({ min: 3, max: 2 ** 31 }),
      epoch: fc.integer({ min: 0, max: 100_000 }),
      gaps: fc.array(fc.integer({ min: 1, max: 1_000 }), { maxLength: running }),
      past: fc.integer({ min: 1, max: 1_000 }),
    })
    .map(({ xmin, epoch, gaps, past }) => {
      const first = epoch * 2 ** 32 + xmin;
      const open: number[] = [];
      for (const gap of gaps) open.push((open.at(-1) ?? first) + gap);
      return { xmin: first, xmax: (open.at(-1) ?? first) + past, running: open };
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

const history = '0123456789abcdef';
const sees = ({ xmax, running }: Snapshot, xid: number) => xid < xmax && !running.includes(xid);

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

  it('a feed cursor over however many running transactions sees nothing that its snapshot does not, and all before its end', () => {
    fc.assert(
      fc.property(snapshots(400), (snapshot) => {
        const { snapshot: decoded } = decodeFeedCursor(encodeFeedCursor({ history, snapshot }));
        const edges = [snapshot, decoded].flatMap(({ xmin, xmax, running }) => [xmin, xmax, ...running]);
        for (const xid of edges.flatMap((edge) => [edge - 1, edge, edge + 1])) {
          expect(sees(decoded, xid)).toBe(xid < decoded.xmax && sees(snapshot, xid));
        }
      }),
    );
  });

  it('a feed cursor over too many running transactions keeps the oldest, and repeats what began after them', () => {
    const running = Array.from({ length: 500 }, (_, index) => 1_000 + index * 2);
    const text = encodeFeedCursor({ history, snapshot: { xmin: 1_000, xmax: 2_000, running } });
    const { snapshot } = decodeFeedCursor(text);
    const kept = snapshot.running.length;
    expect(kept).toBeGreaterThan(60);
    const cut = { xmin: 1_000, xmax: running[kept], running: running.slice(0, kept), isCut: true };
    expect(snapshot).toEqual(cut);
  });

  it('a feed cursor that was cut stays cut, also as a part of a listing', () => {
    fc.assert(
      fc.property(cursors(400), (cursor) => {
        const text = encodeFeedCursor(cursor);
        expect(encodeFeedCursor(decodeFeedCursor(text))).toBe(text);
      }),
    );
  });

  it('a text that is not a feed cursor is refused before it reaches the database', () => {
    const texts = [
      'x',
      'f1',
      `f1.${history}`,
      `f1.${history}.`,
      `f1.${history}.0~1`,
      `f1.${history}.a`,
      `f1.${history}.a~`,
      `f1.${history}.a~1~~`,
      `f1.${history}.a~c~b`, // one that runs after the end
      `f1.${history}.a~3~2~5`, // not in order
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

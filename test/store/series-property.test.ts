// A series against a plain model over every beat that ever came: gaps and measurements, fine and coarse buckets, before
// and after days are summed up and their observations dropped.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BEAT_GAP, countBuckets, MOST_BUCKETS } from '../../src/domain/series.ts';
import { readSeries } from '../../src/service/monitors/series.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import {
  beginSumsAt,
  DAY_MS,
  daysAgo,
  HOUR_MS,
  insertBeats,
  insertOthers,
  type PastBeat,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';

let fixture: ProjectFixture;

// The days of the model are those of the database: no run begins in the last minutes of a day.
beforeAll(async () => {
  await waitOutDay(180_000);
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const FIRST_DAY = 40;
/** Zero has no sign in JSON. */
const number = fc
  .oneof(fc.integer({ min: -5, max: 5 }), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .map((value) => value + 0);

/** Gaps from nothing to days, of all kinds of beats, at whole hours too. */
const beats: fc.Arbitrary<PastBeat[]> = fc
  .array(
    fc.record({
      gapMs: fc.oneof(
        fc.integer({ min: 0, max: 120_000 }),
        fc.integer({ min: 0, max: 2 * DAY_MS }),
        fc.constantFrom(0, HOUR_MS, DAY_MS),
      ),
      kind: fc.constantFrom(
        'success' as const,
        'success' as const,
        'fail' as const,
        'start' as const,
        'log' as const,
      ),
      measurements: fc.option(fc.dictionary(fc.constantFrom('rows', 'bytes'), number), { nil: undefined }),
    }),
    { maxLength: 120 },
  )
  .map((steps) => {
    let atMs = daysAgo(FIRST_DAY);
    return steps.flatMap(({ gapMs, ...beat }) => {
      atMs += gapMs;
      return atMs < daysAgo(-1)
        ? [{ ...beat, measurements: beat.measurements && { ...beat.measurements }, atMs }]
        : [];
    });
  });

interface Asked {
  fromMs: number;
  toMs: number;
  measurement: string;
  bucketSeconds: number;
}

const asked: fc.Arbitrary<Asked> = fc
  .record({
    fromMs: fc.integer({ min: daysAgo(FIRST_DAY + 1), max: daysAgo(-1) }),
    lengthMs: fc.oneof(fc.integer({ min: 1, max: 3 * HOUR_MS }), fc.integer({ min: 1, max: 45 * DAY_MS })),
    isWhole: fc.boolean(),
    measurement: fc.constantFrom(BEAT_GAP, 'rows', 'bytes', 'none'),
    bucketSeconds: fc.constantFrom(7, 60, 900, 3600, 5400, 10_800, 86_400, 604_800),
  })
  .map(({ fromMs, lengthMs, isWhole, ...rest }) => {
    const startMs = isWhole ? fromMs - (fromMs % HOUR_MS) : fromMs;
    return { ...rest, fromMs: startMs, toMs: startMs + lengthMs };
  });

function valuesOf(all: readonly PastBeat[], measurement: string): { atMs: number; value: number }[] {
  if (measurement !== BEAT_GAP) {
    return all.flatMap(({ atMs, measurements }) => {
      const value = measurements?.[measurement];
      return value === undefined ? [] : [{ atMs, value }];
    });
  }
  const counted = all.filter(({ kind }) => kind === 'success' || kind === 'fail');
  return counted.flatMap(({ atMs }, index) => {
    const before = counted[index - 1];
    return before ? [{ atMs, value: (atMs - before.atMs) / 1000 }] : [];
  });
}

/** `keptMs`: before it hours count whole. */
function modelOf(
  all: readonly PastBeat[],
  { fromMs, toMs, measurement, bucketSeconds }: Asked,
  keptMs: number,
) {
  const since = fromMs < keptMs ? Math.floor(fromMs / HOUR_MS) * HOUR_MS : fromMs;
  const until = toMs < keptMs ? Math.ceil(toMs / HOUR_MS) * HOUR_MS : toMs;
  const bucketMs = bucketSeconds * 1000;
  const values = valuesOf(all, measurement).filter(({ atMs }) => atMs >= since && atMs < until);
  return Array.from({ length: countBuckets({ fromMs, toMs }, bucketSeconds) }, (_, index) => {
    const startMs = (Math.floor(fromMs / bucketMs) + index) * bucketMs;
    const inside = values.filter(({ atMs }) => atMs >= startMs && atMs < startMs + bucketMs);
    const numbers = inside.map(({ value }) => value);
    const count = numbers.length;
    const base = { fromMs: startMs, toMs: startMs + bucketMs };
    if (count === 0) return { ...base, sums: undefined };
    const mean = numbers.reduce((sum, value) => sum + value / count, 0);
    return { ...base, sums: { count, minimum: Math.min(...numbers), maximum: Math.max(...numbers), mean } };
  });
}

interface Known {
  monitor: SeedMonitor;
  all: PastBeat[];
}

async function checkSeries(known: readonly Known[], keptMs: number): Promise<void> {
  const of = fc.constantFrom(...known);
  await fc.assert(
    fc.asyncProperty(of, asked, async ({ monitor, all }, query) => {
      const isFine = query.bucketSeconds % 3600 !== 0;
      fc.pre(countBuckets(query, query.bucketSeconds) <= MOST_BUCKETS);
      fc.pre(!isFine || query.fromMs >= keptMs);
      const { projectId, monitorId } = monitor;
      const found = await readSeries(fixture.pool, { projectId, monitorId }, query);
      const model = modelOf(all, query, keptMs);
      const withoutMean = (buckets: typeof model) =>
        buckets.map(({ sums, ...rest }) => ({ ...rest, ...sums, mean: undefined }));
      expect(withoutMean(found.buckets)).toEqual(withoutMean(model));
      for (const [index, { sums }] of model.entries()) {
        if (!sums) continue;
        // Means below 1e-300 are zero.
        const room = 1e-300 + Math.max(Math.abs(sums.minimum), Math.abs(sums.maximum)) * 1e-9;
        expect(Math.abs((found.buckets[index]?.sums?.mean ?? Number.NaN) - sums.mean)).toBeLessThanOrEqual(
          room,
        );
      }
    }),
    { numRuns: 150 },
  );
}

it('a series has what a plain model over all beats has, however much of it is summed up and dropped', async () => {
  const { pool, project } = fixture;
  const samples = fc.sample(beats, 12);
  const monitors = await seedMonitors(pool, project, samples.length);
  const known = monitors.map((monitor, index) => ({ monitor, all: samples[index] ?? [] }));
  for (const { monitor, all } of known) await insertBeats(pool, monitor, all);
  await beginSumsAt(pool, daysAgo(FIRST_DAY));
  // Pieces of few monitors, and parts of those with more than 20 beats: read as a whole, and later by index.
  const limits = { monitors: 5, observations: 20 };
  await checkSeries(known, daysAgo(FIRST_DAY));
  await sumUpUntil(pool, daysAgo(35), limits);
  await checkSeries(known, daysAgo(35));
  await insertOthers(pool, project.projectId, { fromMs: daysAgo(12), count: 10_000 });
  await sumUpUntil(pool, daysAgo(12), limits);
  await pool.query(`delete from observations where received_at < to_timestamp($1)`, [daysAgo(30) / 1000]);
  await checkSeries(known, daysAgo(30));
  await sumUpUntil(pool, daysAgo(1), limits);
  await checkSeries(known, daysAgo(30));
});

// How many observations of a busy monitor a series reads, in rows, which no busy machine changes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BEAT_GAP } from '../../src/domain/series.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import { readSeries, type SeriesRequest } from '../../src/service/monitors/series.ts';
import { PARTITIONED_TABLES, partitionAt } from '../../src/store/postgres/partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { rowsReadBy } from '../support/pages.ts';
import { beginSumsAt, DAY_MS, daysAgo, HOUR_MS } from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';

const [observations] = PARTITIONED_TABLES;
if (!observations) throw new Error('no table');

const EVERY_MS = 300;
const COUNT = DAY_MS / EVERY_MS;
const startMs = daysAgo(3);
let fixture: ProjectFixture;
let monitor: SeedMonitor;

// A day with a beat in each 300 ms, which is not summed up.
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool } = fixture;
  const { name, fromMs, toMs } = partitionAt(observations, startMs);
  await pool.query(
    `create table ${name} partition of observations for values from ('${toTime(fromMs)}') to ('${toTime(toMs)}')`,
  );
  monitor = await seedMonitor(pool, fixture.project);
  await pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
     select $1, $2, place + 1, to_timestamp($3) + place * interval '${EVERY_MS} milliseconds', 'success',
       '{"rows": 7}' from generate_series(0, ${COUNT - 1}) as place`,
    [monitor.projectId, monitor.monitorKey, startMs / 1000],
  );
  await pool.query(`vacuum analyze ${name}`);
  await beginSumsAt(pool, startMs);
});
afterAll(() => fixture?.close());

const ask = (request: Partial<SeriesRequest>): SeriesRequest => ({
  fromMs: startMs,
  toMs: startMs + DAY_MS,
  measurement: BEAT_GAP,
  bucketSeconds: undefined,
  ...request,
});
const read = (request: Partial<SeriesRequest>, db: ProjectFixture['pool'] = fixture.pool) =>
  readSeries(db, { projectId: monitor.projectId, monitorId: monitor.monitorId }, ask(request));
const rowsOf = (name: string, request: Partial<SeriesRequest>) =>
  rowsReadBy(fixture.pool, name, (db) => read(request, db as ProjectFixture['pool']).catch(() => undefined));

describe('a series of a monitor with very many beats', () => {
  it.each([BEAT_GAP, 'rows'])('has whole hours without a wish, each value once: %s', async (measurement) => {
    const { bucketSeconds, buckets } = await read({ measurement });
    expect(bucketSeconds).toBe(3600);
    const counts = buckets.map(({ sums }) => sums?.count);
    const hour = HOUR_MS / EVERY_MS;
    // The very first beat has no gap.
    expect(counts).toEqual([measurement === BEAT_GAP ? hour - 1 : hour, ...Array(23).fill(hour)]);
    expect(new Set(buckets.map(({ sums }) => sums?.mean))).toEqual(
      new Set([measurement === BEAT_GAP ? 0.3 : 7]),
    );
  });

  it('refuses finer buckets, having read a few observations', async () => {
    await expect(read({ bucketSeconds: 300 })).rejects.toMatchObject({
      options: { fieldErrors: [{ path: 'bucketSeconds', code: 'too_fine' }] },
    });
    expect(await rowsOf('', { bucketSeconds: 300 })).toBeLessThan(100);
  });

  it.each([BEAT_GAP, 'rows'])(
    'reads the beats of a short span alone, in fine buckets: %s',
    async (measurement) => {
      const span = { fromMs: startMs + 5 * HOUR_MS, toMs: startMs + 6 * HOUR_MS, measurement };
      const { bucketSeconds, buckets } = await read(span);
      expect(bucketSeconds).toBe(60);
      expect(buckets.map(({ sums }) => sums?.count)).toEqual(Array(60).fill(60_000 / EVERY_MS));
      expect(await rowsOf('', span)).toBeLessThan(HOUR_MS / EVERY_MS + 200);
    },
  );

  it('reads no observation twice', async () => {
    expect(await rowsOf('sum-up', {})).toBeLessThan(COUNT + 10);
  });
});

// What a series of a year reads, in pages, which no busy machine changes.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BEAT_GAP } from '../../src/domain/series.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import { readHours } from '../../src/store/beats/observation-sums.ts';
import { PARTITIONED_TABLES, partitionAt } from '../../src/store/postgres/partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { pagesOf } from '../support/pages.ts';
import { DAY_MS, daysAgo } from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';

const [, buckets] = PARTITIONED_TABLES;
if (!buckets) throw new Error('no table');

let fixture: ProjectFixture;
let monitors: SeedMonitor[];
const since = daysAgo(365);

// Day by day, as the sweeper writes them.
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool } = fixture;
  const now = partitionAt(buckets, Date.now()).fromMs;
  for (
    let month = partitionAt(buckets, since);
    month.fromMs < now;
    month = partitionAt(buckets, month.toMs)
  ) {
    await pool.query(
      `create table ${month.name} partition of observation_buckets
       for values from ('${toTime(month.fromMs)}') to ('${toTime(month.toMs)}')`,
    );
  }
  monitors = await seedMonitors(pool, fixture.project, 20);
  await pool.query(
    `insert into observation_buckets
       (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean)
     select project_id, monitor_key, measurement, to_timestamp($1) + hour * interval '1 hour', 12, 1, 9, 5
     from (select project_id, monitor_key from monitors) m, generate_series(0, 365 * 24 - 1) as hour,
       unnest(array['${BEAT_GAP}', 'rows']) as measurement
     order by hour / 24, project_id, monitor_key, measurement, hour`,
    [since / 1000],
  );
  await pool.query('vacuum analyze observation_buckets');
});
afterAll(() => fixture?.close());

it('a series of a year reads three pages for each day at most, among the hours of other monitors', async () => {
  const { projectId, monitorKey } = monitors[7] ?? { projectId: '', monitorKey: '' };
  const query = { fromMs: since, toMs: since + 365 * DAY_MS, measurement: 'rows', bucketSeconds: 86_400 };
  const ref = { projectId, monitorKey };
  const pages = await pagesOf(fixture.pool, (db) => readHours(db, { ref, ...query }));
  expect(pages).toBeLessThan(3 * 365);
  const sums = await readHours(fixture.pool, { ref, ...query });
  expect(sums).toHaveLength(365);
  expect(sums.every(([, { count }]) => count === 24 * 12)).toBe(true);
});

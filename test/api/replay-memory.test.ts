// A replay and a suggestion need no more memory for a long history than for a short one.
// Holds: replayDraft, suggestRule.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createApiClient } from '../support/api-client.ts';
import { withSmallApi } from '../support/api-process.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { setLastSequences } from '../support/past-beats.ts';
import { type SeedMonitor, seedCredential, seedMonitors } from '../support/seed.ts';

const MEGABYTE = 1024 * 1024;
const HEAP_MEGABYTES = 64;
const OBSERVED = 100_000;
/** As many measurements as make the whole history several times as large as the heap. */
const MEASUREMENTS = 32;

let fixture: ProjectFixture;
let long: SeedMonitor;
let short: SeedMonitor;
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  [long, short] = (await seedMonitors(pool, project, 2)) as [SeedMonitor, SeedMonitor];
  const others = Object.fromEntries(
    Array.from({ length: MEASUREMENTS - 1 }, (_, place) => [`m${place}`, place + 0.5]),
  );
  const insert = (monitor: SeedMonitor, count: number) =>
    pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
       select $1, $2, n, clock_timestamp() - interval '2 hours' + n * interval '10 ms', 'success',
         $3::jsonb || jsonb_build_object('rows', n % 1000)
       from generate_series(1, $4::integer) n`,
      [project.projectId, monitor.monitorKey, JSON.stringify(others), count],
    );
  await insert(long, OBSERVED);
  await insert(short, 100);
  await setLastSequences(pool, project.projectId);
});
afterAll(() => fixture?.close());

it('a replay of 100,000 observations and a suggestion from the newest of them fit into a small heap', {
  timeout: 600_000,
}, async () => {
  const { pool, project, databaseUrl } = fixture;
  const { projectId } = project;
  await withSmallApi({ databaseUrl, heapMegabytes: HEAP_MEGABYTES }, async ({ url, memory }) => {
    const manage = createApiClient({
      url,
      token: await seedCredential(pool, { projectId, preset: 'manage' }),
    });
    const since = new Date(Date.now() - 86_400_000).toISOString();
    const replay = async ({ monitorId }: SeedMonitor) => {
      const params = { monitorId };
      const proposal = { measurementKey: 'rows', definition: { maximum: 998, missingPolicy: 'reject' } };
      const { body: draft } = await manage.expectSuccess('createDraft', { params, body: { proposal } });
      const body = { draftId: draft.id, since };
      return (await manage.expectSuccess('replayDraft', { params, body })).body;
    };
    const suggest = async ({ monitorId }: SeedMonitor) => {
      const body = { measurementKey: 'rows' };
      return (await manage.expectSuccess('suggestRule', { params: { monitorId }, body })).body;
    };
    await replay(short);
    await suggest(short);
    const before = await memory();
    const { window, proposed } = await replay(long);
    expect([window.observationCount, proposed.flaggedCount, proposed.incidents.length]).toEqual([
      OBSERVED,
      OBSERVED / 1000,
      OBSERVED / 1000,
    ]);
    expect((await suggest(long)).window.observationCount).toBe(50_000);
    expect((await memory()) - before).toBeLessThan(HEAP_MEGABYTES * MEGABYTE);
  });
});

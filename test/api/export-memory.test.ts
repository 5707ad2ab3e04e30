// The memory of an export does not grow with what it has, nor while its reader does not read.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXPORT_FORMATS } from '../../src/contract/resources/export.ts';
import { type ApiProcess, withSmallApi } from '../support/api-process.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { fetchExport } from '../support/export-reader.ts';
import { setLastSequences } from '../support/past-beats.ts';
import { seedCredential, seedMonitors, seedProject } from '../support/seed.ts';

const MONITORS = 100;
const BEATS_OF_EACH = 3_000;
const MEGABYTE = 1024 * 1024;
/** Of 20 KB: they are as much as half of the heap. */
const LARGE_LINES = 1_600;
/** Of the heap: less than the text of the export. */
const HEAP_MEGABYTES = 64;

let fixture: ProjectFixture;
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  await seedMonitors(pool, project, MONITORS);
  await pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, message, measurements)
     select project_id, monitor_key, n, clock_timestamp() - interval '2 hours' + n * interval '1 second', 'success',
       repeat('m', 200), '{"rows": 1042}'
     from monitors, generate_series(1, $1::integer) n`,
    [BEATS_OF_EACH],
  );
  await setLastSequences(pool, project.projectId);
});
afterAll(() => fixture?.close());

const inSmallApi = (work: (api: ApiProcess) => Promise<void>) =>
  withSmallApi({ databaseUrl: fixture.databaseUrl, heapMegabytes: HEAP_MEGABYTES }, work);

it('an export of 300,000 observations needs as much memory as one of few', async () => {
  const { pool, project } = fixture;
  const token = await seedCredential(pool, { projectId: project.projectId, preset: 'read' });
  await inSmallApi(async ({ url, memory }) => {
    const call = { url, token };
    const few = await fetchExport({ ...call, query: { format: 'csv' } });
    await few.body?.getReader().read();
    const before = await memory();
    let bytes = 0;
    let ends = 0;
    for (const format of EXPORT_FORMATS) {
      const answer = await fetchExport({ ...call, query: { format } });
      for await (const piece of answer.body ?? []) {
        bytes += piece.length;
        for (let at = piece.indexOf(0x0a); at >= 0; at = piece.indexOf(0x0a, at + 1)) ends += 1;
      }
    }
    // Both formats, one checkpoint for each page and few other records.
    expect(ends).toBeGreaterThan(2 * MONITORS * BEATS_OF_EACH);
    expect(bytes).toBeGreaterThan(2 * HEAP_MEGABYTES * MEGABYTE);
    expect((await memory()) - before).toBeLessThan(HEAP_MEGABYTES * MEGABYTE);
  });
});

it('four readers that stand still, and lines of 20 KB, fit into the memory of a small process', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const [monitor] = await seedMonitors(pool, project, 1);
  const measurements = Object.fromEntries(Array.from({ length: 64 }, (_, place) => [`m${place}`, 5e-324]));
  await pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
     select $1, $2, n, clock_timestamp() - interval '1 hour', 'success', $3 from generate_series(1, $4::integer) n`,
    [project.projectId, monitor?.monitorKey, JSON.stringify(measurements), LARGE_LINES],
  );
  await setLastSequences(pool, project.projectId);
  const tokens = [1, 2].map(() => seedCredential(pool, { projectId: project.projectId, preset: 'read' }));
  await inSmallApi(async ({ url }) => {
    const calls = (await Promise.all(tokens)).flatMap((token) => [
      { url, token },
      { url, token },
    ]);
    const readers = await Promise.all(calls.map(async (call) => (await fetchExport(call)).body?.getReader()));
    for (const reader of readers) await reader?.read();
    const { status } = await fetchExport({ url, token: calls[0]?.token ?? '', method: 'HEAD' });
    expect(status).toBe(429);
    for (const reader of readers) {
      let bytes = 0;
      for (let read = await reader?.read(); read && !read.done; read = await reader?.read())
        bytes += read.value.length;
      expect(bytes).toBeGreaterThan(LARGE_LINES * 20_000);
    }
  });
});

// The memory of an export does not grow with what it has, nor while its reader does not read.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXPORT_FORMATS } from '../../src/contract/resources/export.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { fetchExport } from '../support/export-reader.ts';
import { seedCredential, seedMonitors } from '../support/seed.ts';

const PROGRAM = fileURLToPath(new URL('../support/api-program.ts', import.meta.url));
const MONITORS = 100;
const BEATS_OF_EACH = 3_000;
const MEGABYTE = 1024 * 1024;
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
});
afterAll(() => fixture?.close());

it('an export of 300,000 observations needs as much memory as one of few', async () => {
  const { pool, project, databaseUrl } = fixture;
  const token = await seedCredential(pool, { projectId: project.projectId, preset: 'read' });
  const child = fork(PROGRAM, [databaseUrl], { execArgv: [`--max-old-space-size=${HEAP_MEGABYTES}`] });
  const ask = async () => {
    child.send('memory');
    const [bytes] = (await once(child, 'message')) as [number];
    return bytes;
  };
  try {
    const [port] = (await once(child, 'message')) as [number];
    const call = { url: `http://127.0.0.1:${port}`, token };
    const few = await fetchExport({ ...call, query: { format: 'csv' } });
    await few.body?.getReader().read();
    const before = await ask();
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
    const after = await ask();
    expect(after - before).toBeLessThan(HEAP_MEGABYTES * MEGABYTE);
  } finally {
    const ended = once(child, 'exit');
    child.disconnect();
    await ended;
  }
});

// How an export ends: to its end, or broken off; and how many there may be at once.
// Holds: exportOrganization.
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Problem } from '../../src/contract/resources/problem.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import { type ExportCall, fetchExport, ofType, readExport, recordsOf } from '../support/export-reader.ts';
import { setLastSequences } from '../support/past-beats.ts';
import { type SeedMonitor, seedCredential, seedMonitor } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { addProject, type ExportFixture, openExportFixture } from './export-fixture.ts';

let api: ApiFixture;
let proxy: TcpProxy;
let asCredential: ExportFixture['asCredential'];
let asOwner: ExportFixture['asOwner'];

beforeAll(async () => {
  ({ api, asCredential, asOwner } = await openExportFixture({
    databaseUrl: async (url) => {
      proxy = await TcpProxy.start(url);
      return proxy.url;
    },
  }));
});
afterAll(async () => {
  await api?.close();
  await proxy?.close();
});

const problemOf = async (answer: Response) => (await answer.json()) as Problem;

/** So many observations that no buffer between here and there holds them. */
let large: SeedMonitor;
const COUNT = 60_000;
/** With its end: a piece may end within a line. */
const CHECKPOINT_LINE = /"checkpoint".*\n/;
beforeAll(async () => {
  large = await seedMonitor(api.pool, await addProject(api, 'large'));
  await api.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, message)
     select $1, $2, n, clock_timestamp() - interval '1 hour' + n * interval '1 millisecond', 'success', repeat('m', 1000)
     from generate_series(1, $3::integer) n`,
    [large.projectId, large.monitorKey, COUNT],
  );
  await setLastSequences(api.pool, large.projectId);
});
const ofLarge = (more: Partial<ExportCall> = {}) => asOwner({ project: 'large', ...more });

it('a checkpoint comes at least every 1,000 records', async () => {
  let since = 0;
  for (const { type } of recordsOf(await readExport(ofLarge()))) {
    since = type === 'checkpoint' ? 0 : since + 1;
    expect(since).toBeLessThanOrEqual(1_000);
  }
});

it.each([
  ['gzip, deflate', 'gzip'],
  ['deflate, gzip;q=0', null],
  ['identity', null],
])('an export for Accept-Encoding: %s is whole, and its encoding is %s', async (encoding, expected) => {
  const answer = await fetchExport(ofLarge({ encoding }));
  expect(answer.headers.get('content-encoding')).toBe(expected);
  expect(answer.headers.get('vary')).toMatch(/\bAccept-Encoding\b/);
  const records = recordsOf(await answer.text());
  expect(ofType(records, 'observation')).toHaveLength(COUNT);
  expect(records.at(-1)).toMatchObject({ complete: true });
});

it('a database that goes away breaks the stream, and the export goes on from its last checkpoint', async () => {
  const answer = await fetchExport(ofLarge());
  let text = '';
  const read = (async () => {
    const decoder = new TextDecoder();
    for await (const piece of answer.body ?? []) {
      const hadCheckpoint = CHECKPOINT_LINE.test(text);
      text += decoder.decode(piece, { stream: true });
      if (!hadCheckpoint && CHECKPOINT_LINE.test(text)) await proxy.refuse();
    }
  })();
  await expect(read).rejects.toThrow();
  await proxy.accept();
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  const before = recordsOf(whole);
  const last = before.findLastIndex(({ type }) => type === 'checkpoint');
  const checkpoint = before[last];
  if (checkpoint?.type !== 'checkpoint') throw new Error('The stream broke before its first checkpoint.');
  expect(checkpoint.complete).toBe(false);
  const after = await waitFor(() => readExport(ofLarge({ query: { cursor: checkpoint.cursor } })), {
    what: 'the database answers again',
  });
  const sequences = ofType([...before.slice(0, last), ...recordsOf(after)], 'observation').map(
    ({ sequence }) => sequence,
  );
  expect(sequences).toEqual(Array.from({ length: COUNT }, (_, place) => place + 1));
});

async function readSlowly(answer: Response): Promise<void> {
  for await (const _piece of answer.body ?? []) await setTimeout(50);
}

/** A new credential of the project. */
const asNew = async (more: Partial<ExportCall> = {}) =>
  asCredential({
    token: await seedCredential(api.pool, { projectId: large.projectId, preset: 'read' }),
    ...more,
  });

it('an organization has four exports at once, one caller two, others go on, and one that is left makes room', async () => {
  const left = new AbortController();
  // An answer that nobody holds is left.
  const open: Response[] = [];
  const isOpen = async (call: ExportCall) => {
    const answer = await fetchExport({ ...call, signal: left.signal });
    open.push(answer);
    return answer.status;
  };
  const requireFull = async (call: ExportCall) => {
    const refused = await fetchExport(call);
    expect([refused.status, (await problemOf(refused)).code]).toEqual([429, 'service.rate_limited']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  };
  const credential = await asNew();
  for (const call of [ofLarge(), credential]) {
    expect([await isOpen(call), await isOpen(call)]).toEqual([200, 200]);
    await requireFull(call);
  }
  await requireFull(await asNew());
  const token = await seedCredential(api.pool, { projectId: api.other.projectId, preset: 'read' });
  expect((await fetchExport(asCredential({ token }))).status).toBe(200);
  expect(open).toHaveLength(4);
  left.abort();
  await waitFor(async () => (await fetchExport(ofLarge({ method: 'HEAD' }))).status === 200, {
    what: 'there is room again',
  });
});

it('a reader that does not read holds no connection: another export has the only one, to its end', async () => {
  const { url } = await api.startReplica({ databasePool: 1 });
  const left = new AbortController();
  const standing = await fetchExport(ofLarge({ url, signal: left.signal }));
  expect(standing.status).toBe(200);
  const records = recordsOf(await readExport(await asNew({ url })));
  expect(ofType(records, 'observation')).toHaveLength(COUNT);
  left.abort();
  await standing.text().catch(() => undefined);
});

it('the export of a credential that is revoked breaks off', async () => {
  const { projectId } = large;
  const token = await seedCredential(api.pool, { projectId, preset: 'read' });
  const answer = await fetchExport(asCredential({ token }));
  await api.pool.query('update credentials set revoked_at = clock_timestamp() where project_id = $1', [
    projectId,
  ]);
  await expect(readSlowly(answer)).rejects.toThrow();
});

it('the export of a credential that is revoked breaks off also where nobody reads', async () => {
  const credentials = [await asNew(), await asNew()];
  const open = await Promise.all([...credentials, ...credentials].map((call) => fetchExport(call)));
  expect((await fetchExport(ofLarge({ method: 'HEAD' }))).status).toBe(429);
  await api.pool.query('update credentials set revoked_at = clock_timestamp() where project_id = $1', [
    large.projectId,
  ]);
  await waitFor(async () => (await fetchExport(ofLarge({ method: 'HEAD' }))).status === 200, {
    what: 'there is room again',
  });
  for (const answer of open) await answer.text().catch(() => undefined);
});

it('a process that ends breaks its exports off', async () => {
  const replica = await api.startReplica();
  const answer = await fetchExport(ofLarge({ url: replica.url }));
  const closed = replica.close();
  await expect(answer.text()).rejects.toThrow();
  await closed;
});

it('an export goes on while its project gets another name and nobody knows the old one any more', async () => {
  const { tokens, pool } = api;
  const { projectId } = large;
  const renamed = await fetchExport(ofLarge());
  const token = await seedCredential(pool, { projectId, preset: 'read' });
  const revoked = await fetchExport(asCredential({ token }));
  const rename = async (name: string) => {
    await pool.query('update projects set name = $2, name_key = $2 where project_id = $1', [projectId, name]);
  };
  await rename('other-name');
  try {
    const byOldName = { url: api.url, token: tokens.member, project: 'large', method: 'HEAD' };
    await waitFor(async () => (await fetchExport(byOldName)).status === 404, {
      what: 'the old name is unknown',
    });
    // What is checked of one export is checked of the other: its caller was looked at since.
    await pool.query('update credentials set revoked_at = clock_timestamp() where project_id = $1', [
      projectId,
    ]);
    await expect(readSlowly(revoked)).rejects.toThrow();
    const records = recordsOf(await renamed.text());
    expect(records.at(-1)).toMatchObject({ complete: true });
    expect(ofType(records, 'observation')).toHaveLength(COUNT);
  } finally {
    await rename('large');
  }
});

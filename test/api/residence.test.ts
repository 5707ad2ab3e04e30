// Monitors of a jurisdiction with a database of its own live there and nowhere else, and calls find them
// (docs/contract/tenancy.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

const bodyOf = (jurisdiction: Jurisdiction, monitorId: string) => ({
  monitorId,
  name: monitorId,
  intervalSeconds: 3600,
  jurisdiction,
});

async function make(jurisdiction: Jurisdiction, monitorId = `m-${randomUUID()}`) {
  await api.manage.expectSuccess('createMonitor', { body: bodyOf(jurisdiction, monitorId) });
  return { monitorId };
}

const read = (monitorId: string, jurisdiction?: Jurisdiction) =>
  api.manage.call('getMonitor', { params: { monitorId }, query: { jurisdiction } });

/** The tables of a database that have something of the monitor. */
async function tablesWith(pool: Pool, monitorId: string) {
  const { rows } = await pool.query<{ table_name: string }>(
    "select table_name from information_schema.columns where table_schema = 'public' and column_name = 'monitor_id'",
  );
  const found = [];
  for (const { table_name: table } of rows) {
    const { rowCount } = await pool.query(`select from ${table} where monitor_id = $1`, [monitorId]);
    if (rowCount) found.push(table);
  }
  return found;
}

it('a monitor is in the database of its jurisdiction and in no other', async () => {
  const { monitorId } = await make('eu');
  expect(await tablesWith(api.eu, monitorId)).toContain('monitors');
  expect(await tablesWith(api.pool, monitorId)).toEqual([]);
  const { monitorId: other } = await make('us');
  expect(await tablesWith(api.pool, other)).toContain('monitors');
  expect(await tablesWith(api.eu, other)).toEqual([]);
});

it('calls find a monitor with and without its jurisdiction, and change it where it is', async () => {
  const params = await make('eu');
  for (const jurisdiction of [undefined, 'eu'] as const) {
    const { etag: ifMatch } = await read(params.monitorId, jurisdiction);
    const body = { patch: { description: `by ${jurisdiction}` } };
    const query = { jurisdiction };
    const { body: changed } = await api.manage.expectSuccess('updateMonitor', {
      params,
      query,
      ifMatch,
      body,
    });
    expect(changed.description).toBe(`by ${jurisdiction}`);
  }
  expect((await read(params.monitorId, 'us')).status).toBe(404);
  const { etag: ifMatch } = await read(params.monitorId);
  await api.manage.expectSuccess('deleteMonitor', { params, ifMatch });
  expect(await tablesWith(api.eu, params.monitorId)).not.toContain('monitors');
  expect((await read(params.monitorId)).status).toBe(404);
});

it('an id that is in two databases is a conflict until the call names one of them', async () => {
  const { monitorId } = await make('eu');
  await make('unrestricted', monitorId);
  const both = await read(monitorId);
  expect([both.status, both.problem?.code]).toEqual([409, 'service.conflict']);
  for (const jurisdiction of ['eu', 'unrestricted'] as const)
    expect((await read(monitorId, jurisdiction)).body.jurisdiction).toBe(jurisdiction);
  const { etag: ifMatch } = await read(monitorId, 'eu');
  const params = { monitorId };
  await api.manage.expectSuccess('deleteMonitor', { params, query: { jurisdiction: 'eu' }, ifMatch });
  // Nothing remembers where it was.
  expect((await read(monitorId)).body.jurisdiction).toBe('unrestricted');
});

it('who may not change a monitor learns that it exists, in whichever database it is', async () => {
  const { monitorId } = await make('eu');
  const change = (id: string) =>
    api.read.call('deleteMonitor', { params: { monitorId: id }, ifMatch: '"configuration-1"' });
  expect((await change(monitorId)).status).toBe(403);
  expect((await change('no-such-monitor')).status).toBe(404);
});

it.each(['refuses', 'hangs'])('calls on other monitors go on while one database %s', async (how) => {
  const [here, away] = [await make('us'), await make('eu')];
  if (how === 'refuses') await api.proxies.eu.refuse();
  else api.proxies.eu.blackHole();
  expect((await read(here.monitorId)).status).toBe(200);
  const { etag: ifMatch } = await read(here.monitorId);
  const body = { patch: { description: 'changed' } };
  await api.manage.expectSuccess('updateMonitor', { params: here, ifMatch, body });
  await make('us');
  for (const answer of [
    await read(away.monitorId),
    await read(away.monitorId, 'eu'),
    await read('unknown'),
  ]) {
    expect(answer.problem).toMatchObject({ code: 'service.temporarily_unavailable', jurisdiction: 'eu' });
    expect(answer.problem?.detail).toContain('the jurisdiction eu');
  }
  expect((await read('unknown', 'us')).status).toBe(404);
  const refused = await api.manage.call('createMonitor', { body: bodyOf('eu', `m-${randomUUID()}`) });
  expect(refused.problem?.jurisdiction).toBe('eu');
  await api.restore();
  expect((await read(away.monitorId)).status).toBe(200);
});

it('a repeated call gets the first answer, also when its monitor is gone or its id is somewhere else', async () => {
  const { monitorId } = await make('eu');
  const { etag: ifMatch } = await read(monitorId);
  const request = { params: { monitorId }, ifMatch, idempotencyKey: randomUUID(), body: { action: 'pause' } };
  const pause = () => api.manage.expectSuccess('changeMonitorLifecycle', request);
  const { body: paused } = await pause();
  expect(paused.lifecycle).toBe('paused');
  const { etag } = await read(monitorId);
  await api.manage.expectSuccess('deleteMonitor', { params: { monitorId }, ifMatch: etag });
  expect((await pause()).body).toEqual(paused);
  await make('us', monitorId);
  expect((await pause()).body).toEqual(paused);
  expect((await read(monitorId)).body).toMatchObject({ jurisdiction: 'us', lifecycle: 'active' });
});

it('a key of a create in one jurisdiction is refused for a create in another', async () => {
  const idempotencyKey = randomUUID();
  const monitorId = `m-${randomUUID()}`;
  const create = (jurisdiction: Jurisdiction) =>
    api.manage.call('createMonitor', { body: bodyOf(jurisdiction, monitorId), idempotencyKey });
  expect((await create('eu')).status).toBe(201);
  expect((await create('us')).problem?.code).toBe('service.idempotency_conflict');
  expect((await create('eu')).body.replayed).toBe(true);
  expect(await tablesWith(api.pool, monitorId)).toEqual([]);
});

it('a fault of a statement is no database that is away', async () => {
  const { monitorId } = await make('eu');
  // The tables are there, and what is read of them fails: no `migrate` would mend it.
  await api.eu.query(`alter table monitors rename to hidden;
    create view monitors as select * from hidden where 1 / (length(monitor_id) - length(monitor_id)) = 1`);
  try {
    const answer = await read(monitorId);
    expect([answer.status, answer.problem?.jurisdiction]).toEqual([500, undefined]);
  } finally {
    await api.eu.query('drop view monitors; alter table hidden rename to monitors');
  }
});

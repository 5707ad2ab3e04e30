// A call that is repeated has one effect and its first answer, also where the database that knows it was away meanwhile
// (docs/contract/tenancy.md).
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { type Homes, type Look, shareHomes } from '../../src/service/calls/homes.ts';
import { findKeyedHome } from '../../src/service/calls/keyed-home.ts';
import { type Databases, openDatabases } from '../../src/store/postgres/databases.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api?.close());
beforeEach(() => api.restore());

const bodyOf = (jurisdiction: Jurisdiction, monitorId: string) => ({
  ...{ monitorId, name: monitorId, intervalSeconds: 3600, jurisdiction },
});

async function make(jurisdiction: Jurisdiction, monitorId = `m-${randomUUID()}`) {
  await api.manage.expectSuccess('createMonitor', { body: bodyOf(jurisdiction, monitorId) });
  return { monitorId };
}

async function remove(params: { monitorId: string }, jurisdiction: Jurisdiction) {
  const { etag: ifMatch } = await api.manage.expectSuccess('getMonitor', { params, query: { jurisdiction } });
  await api.manage.expectSuccess('deleteMonitor', { params, query: { jurisdiction }, ifMatch });
}

const lifecycleOf = async ({ monitorId }: { monitorId: string }, jurisdiction: Jurisdiction) =>
  (await api.manage.expectSuccess('getMonitor', { params: { monitorId }, query: { jurisdiction } })).body
    .lifecycle;

/** A pause of the first version of a monitor, under one key. */
function pauseOf(params: { monitorId: string }, jurisdiction?: Jurisdiction) {
  const request = {
    ...{ params, query: { jurisdiction }, ifMatch: '"configuration-1"' },
    ...{ body: { action: 'pause' }, idempotencyKey: randomUUID() },
  };
  return (client: ApiClient = api.manage) => client.call('changeMonitorLifecycle', request);
}

const AWAY = { status: 503, code: 'service.temporarily_unavailable', jurisdiction: 'eu', retryable: true };

describe.each(['refuses', 'hangs'] as const)('while the database that has the answer %s', (how) => {
  const takeAway = async () => {
    if (how === 'refuses') await api.proxies.eu.refuse();
    else api.proxies.eu.blackHole();
  };

  it('a call on a monitor that is made again elsewhere is not done there', async () => {
    const params = await make('eu');
    const pause = pauseOf(params);
    const { body: paused } = await pause();
    expect(paused.lifecycle).toBe('paused');
    await remove(params, 'eu');
    await make('us', params.monitorId);
    await takeAway();
    expect((await pause()).problem).toMatchObject(AWAY);
    expect(await lifecycleOf(params, 'us')).toBe('active');
    await api.restore();
    expect((await pause()).body).toEqual(paused);
    expect(await lifecycleOf(params, 'us')).toBe('active');
  });

  it('a call that names another jurisdiction is done, and so is one on an incident of another', async () => {
    const { monitorId, fail } = await makeMonitor(api, { jurisdiction: 'us' });
    const note = { params: { incidentId: await fail() }, body: { note: 'Seen.' } };
    await takeAway();
    expect((await pauseOf({ monitorId })()).problem).toMatchObject(AWAY);
    expect((await pauseOf({ monitorId }, 'us')()).body.lifecycle).toBe('paused');
    await api.manage.expectSuccess('noteIncident', note);
  });

  it('a creation there is a 503, and then its answer', async () => {
    const request = { body: bodyOf('eu', `m-${randomUUID()}`), idempotencyKey: randomUUID() };
    const { body: first } = await api.manage.expectSuccess('createMonitor', request);
    await remove(first, 'eu');
    await takeAway();
    expect((await api.manage.call('createMonitor', request)).problem).toMatchObject(AWAY);
    await api.restore();
    expect((await api.manage.expectSuccess('createMonitor', request)).body).toEqual({
      ...first,
      replayed: true,
    });
  });
});

it('an answer whose database is away for one statement is no refusal', async () => {
  const params = await make('eu');
  const pause = pauseOf(params);
  const { body: paused } = await pause();
  await remove(params, 'eu');
  api.proxies.eu.loseAnswerTo(['find-answer']);
  const { problem } = await pause();
  expect(api.proxies.eu.hasLostAnswer).toBe(true);
  expect(problem).toMatchObject(AWAY);
  await api.restore();
  expect((await pause()).body).toEqual(paused);
});

it('a call in the default database is a 503 while that is away, and then its answer', async () => {
  const request = { body: { name: `p-${randomUUID()}` }, idempotencyKey: randomUUID() };
  const { body: first } = await api.owner.expectSuccess('createProject', request);
  await api.proxies.default.refuse();
  expect((await api.owner.call('createProject', request)).problem).toMatchObject({
    status: 503,
    retryable: true,
  });
  await api.restore();
  expect((await api.owner.expectSuccess('createProject', request)).body).toEqual(first);
});

it('of two calls with one key, one of them made while the database of the other one was away, each gets its own answer', async () => {
  const idempotencyKey = randomUUID();
  const create = (jurisdiction: Jurisdiction, monitorId: string) =>
    api.manage.call('createMonitor', { body: bodyOf(jurisdiction, monitorId), idempotencyKey });
  const [there, here] = [`m-${randomUUID()}`, `m-${randomUUID()}`];
  expect((await create('eu', there)).status).toBe(201);
  expect((await create('us', here)).problem?.code).toBe('service.idempotency_conflict');
  await api.proxies.eu.refuse();
  expect((await create('us', here)).status).toBe(201);
  // No refusal for good: it was done, where nobody can look now.
  expect((await create('eu', there)).problem).toMatchObject(AWAY);
  await api.restore();
  for (const [jurisdiction, monitorId] of [
    ['eu', there],
    ['us', here],
  ] as const) {
    const { status, body } = await create(jurisdiction, monitorId);
    expect([status, body.monitorId, body.replayed]).toEqual([200, monitorId, true]);
  }
  expect((await create('us', `m-${randomUUID()}`)).problem?.code).toBe('service.idempotency_conflict');
});

describe('the look for a call with a key', () => {
  let databases: Databases;
  let homes: Homes;
  const guard = () => ({
    ...{ scopeId: randomUUID(), key: 'k', fingerprint: Buffer.from('f') },
    secrets: api.secrets,
  });
  beforeAll(() => {
    databases = openDatabases({ databaseUrl: api.databaseUrl, size: 2, applicationName: 'test' }, [
      { jurisdiction: 'eu', databaseUrl: api.proxies.eu.url },
    ]);
    for (const { gate } of databases.places) gate.open();
    homes = shareHomes(databases, (pool) => pool);
  });
  afterAll(() => databases?.end());

  const answer = async (pool: Pool, { scopeId, key, fingerprint }: ReturnType<typeof guard>) =>
    await pool.query(
      `insert into idempotency_records (scope_id, key, fingerprint, status, created_at)
       values ($1, $2, $3, 200, clock_timestamp())`,
      [scopeId, key, fingerprint],
    );
  const find = (look: Look, of: ReturnType<typeof guard>) =>
    findKeyedHome(homes, { asked: homes, look, isInOne: false }, of);

  it('finds a call that commits, and whose monitor goes, while it looks', async () => {
    const of = guard();
    const look: Look = async (db) => {
      if (db === homes[1]?.db) await answer(api.eu, of);
      return false;
    };
    expect(await find(look, of)).toMatchObject({ replay: { status: 200 } });
  });

  describe('while a database is slow and not away', () => {
    let slow: PromiseWithResolvers<boolean>;
    beforeEach(() => {
      slow = Promise.withResolvers();
    });
    afterEach(() => slow.resolve(false));

    const lookIn = (found: boolean): Look => {
      return (db) => (db === homes[1]?.db ? slow.promise : Promise.resolve(found));
    };

    it('waits for no other database once it has the answer', async () => {
      const of = guard();
      await answer(api.pool, of);
      expect(await find(lookIn(false), of)).toMatchObject({ replay: { status: 200 } });
    });

    it('does not wait for it where another one has what can be in one alone', async () => {
      const aim = { asked: homes, look: lookIn(true), isInOne: true };
      expect(await findKeyedHome(homes, aim, guard())).toBe(homes[0]);
    });

    it('refuses a key of another request without it', async () => {
      const of = guard();
      await answer(api.pool, { ...of, fingerprint: Buffer.from('other') });
      const aim = { asked: homes, look: lookIn(true), isInOne: true };
      await expect(findKeyedHome(homes, aim, of)).rejects.toMatchObject({
        code: 'idempotency_conflict',
      });
    });
  });
});

it('a duplicate of a creation that takes the last slot is told to try again, and is not refused by the plan', async () => {
  const elsewhere = await api.startReplica({ plans: { scale: { activeMonitors: 1 } } });
  await make('us');
  const client = createApiClient({ url: elsewhere.url, token: api.tokens.manage });
  const request = { body: bodyOf('eu', `m-${randomUUID()}`), idempotencyKey: randomUUID() };
  // The first call, at another replica: it has the slot and the key, and has not committed.
  const first = await api.eu.connect();
  await first.query('begin');
  await first.query(
    `insert into idempotency_records (scope_id, key, fingerprint, status, created_at)
     values ($1, $2, '\\x00', 0, clock_timestamp())`,
    [api.projectId, request.idempotencyKey],
  );
  const { problem } = await client.call('createMonitor', request);
  await first.query('rollback');
  first.release();
  expect(problem).toMatchObject({ code: 'service.conflict', retryable: true });
  expect((await client.call('createMonitor', request)).problem?.code).toBe('service.plan_limit_reached');
});

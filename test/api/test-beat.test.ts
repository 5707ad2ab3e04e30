// Test beats over HTTP: what one says is what the live beat then does, and it records nothing (docs/contract/beats.md).
// Holds: testBeat.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const DAY_MS = 86_400_000;

/** A monitor, and what its publish address is. */
async function make(body: object = {}) {
  const { params, address, act } = await makeAddressed(api, body);
  return {
    params,
    act,
    beat: async (beat: object) =>
      await fetch(address, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify(beat),
      }),
    test: async (beat?: object) => (await api.read.expectSuccess('testBeat', { params, body: beat })).body,
  };
}

const taken = { accepted: true, violations: [], incidentChanges: [], fieldErrors: [] };
const refused = (path: string, code: string) => ({
  accepted: false,
  violations: [],
  incidentChanges: [],
  fieldErrors: [{ path, code, message: expect.stringMatching(/^[A-Z].*\.$/) }],
});

/** Every row of every table, with the transaction that wrote it: also an update that changes nothing shows. */
async function readAll(): Promise<Record<string, unknown>> {
  const tables = await api.pool.query<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class c
     where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
       and c.relname not in ('service_clock', 'rate_windows', 'credentials')`,
  );
  const all: Record<string, unknown> = {};
  for (const { name } of tables.rows) {
    const { rows } = await api.pool.query(`select xmin::text as writer, t::text as values from ${name} t`);
    all[name] = rows.map((row) => JSON.stringify(row)).sort();
  }
  return all;
}

describe('a test beat', () => {
  it('says which incidents a fail would open, and a success would end', async () => {
    const monitor = await make();
    expect(await monitor.test()).toEqual(taken);
    const opens = { kind: 'reported_failure', change: 'open', severity: 'critical' };
    expect(await monitor.test({ exitStatus: 3 })).toEqual({ ...taken, incidentChanges: [opens] });
    await monitor.beat({ status: 'fail' });
    expect(await monitor.test({ status: 'fail' })).toEqual(taken);
    const ends = { ...opens, change: 'recover' };
    expect(await monitor.test({ status: 'success' })).toEqual({ ...taken, incidentChanges: [ends] });
  });

  it('opens an incident that is recovering again, and ends one with the last of its successes', async () => {
    const monitor = await make({ recoveryBeats: 2 });
    await monitor.beat({ status: 'fail' });
    expect(await monitor.test({})).toEqual(taken);
    await monitor.beat({});
    expect((await monitor.test({ status: 'fail' })).incidentChanges).toMatchObject([{ change: 'open' }]);
    expect((await monitor.test({})).incidentChanges).toMatchObject([{ change: 'recover' }]);
  });

  it.each([
    ['an unknown status', { status: 'ok' }, 'status', 'invalid_value'],
    ['a bad exit status', { exitStatus: 256 }, 'exitStatus', 'out_of_range'],
    ['a bad run id', { runId: '-' }, 'runId', 'invalid_format'],
    ['a long message', { status: 'log', message: 'x'.repeat(1025) }, 'message', 'too_long'],
    ['a bad time', { observedAt: 'noon' }, 'observedAt', 'invalid_format'],
    ['an unknown field beside ours', { exitStatus: 0, exit: 1 }, 'exit', 'unrecognized_key'],
    ['a bad measurement key', { measurements: { Rows: 1 } }, 'measurements.Rows', 'invalid_key'],
    ['a number that is none', { measurements: { rows: '1' } }, 'measurements.rows', 'invalid_number'],
    [
      'more measurements than the plan allows',
      { measurements: Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`m${index}`, 1])) },
      'measurements',
      'plan_limit',
    ],
  ])('is a 200 that names the field for %s', async (_, beat, path, code) => {
    const monitor = await make();
    expect(await monitor.test(beat)).toEqual(refused(path, code));
    expect((await monitor.beat(beat)).status).toBeGreaterThanOrEqual(400);
  });

  it('is a 200 for a body that is no JSON, and takes JSON of other senders as text', async () => {
    const { params } = await make();
    const call = async (rawBody: string | Buffer, headers = {}) =>
      (await api.read.expectSuccess('testBeat', { params, rawBody, headers })).body;
    expect(await call('{"status":')).toEqual(refused('body', 'malformed_body'));
    expect(await call('{"runId":"a","runId":"b"}')).toMatchObject({ accepted: false });
    expect(await call('{"status":"ok","service":"db"}')).toEqual(taken);
    expect(await call('{"message":"a\\u0000b"}')).toEqual(taken);
    expect(await call('[1]')).toEqual(taken);
    const zipped = gzipSync('{"exitStatus":-1}');
    const gzip = { 'content-encoding': 'gzip' };
    expect(await call(zipped, gzip)).toEqual(refused('exitStatus', 'out_of_range'));
  });

  it('refuses a body that no call may have', async () => {
    const { params } = await make();
    const rawBody = JSON.stringify({ message: 'x'.repeat(16_384) });
    expect((await api.read.call('testBeat', { params, rawBody })).problem).toMatchObject({ status: 413 });
    const headers = { 'content-type': 'text/plain' };
    const text = await api.read.call('testBeat', { params, rawBody: 'done', headers });
    expect(text.problem).toMatchObject({ status: 415 });
  });

  it('says that an archived monitor takes no beats', async () => {
    const monitor = await make();
    await monitor.act('archive');
    expect(await monitor.test({ status: 'fail' })).toEqual(refused('body', 'monitor_archived'));
  });

  it('says that a fail opens nothing while paused or in maintenance', async () => {
    const monitor = await make();
    const at = (ms: number) => new Date(Date.now() + ms).toISOString();
    await monitor.act('enter_maintenance', { startsAt: at(-DAY_MS), endsAt: at(DAY_MS) });
    expect(await monitor.test({ status: 'fail' })).toEqual(taken);
    await monitor.act('pause');
    expect(await monitor.test({ status: 'fail' })).toEqual(taken);
  });

  it('says that a beat comes too soon after the last ones', async () => {
    const monitor = await make();
    await api.pool.query(
      `update monitor_live set tokens = 0, tokens_ms = $2
       where monitor_key = (select monitor_key from monitors where monitor_id = $1)`,
      [monitor.params.monitorId, Date.now() + DAY_MS],
    );
    expect(await monitor.test({})).toEqual(refused('body', 'rate_limited'));
    expect((await monitor.beat({})).status).toBe(429);
  });

  it('records nothing, takes no token, moves no deadline', async () => {
    const monitor = await make({ awaitFirstBeat: false, maxRuntimeSeconds: 60 });
    await monitor.beat({ status: 'fail' });
    const before = await readAll();
    const headers = { 'idempotency-key': 'once' };
    for (const body of [{}, { status: 'start', runId: 'r' }, { exitStatus: 1 }, { status: 'nothing' }]) {
      await api.read.expectSuccess('testBeat', { params: monitor.params, body, headers });
    }
    expect(await readAll()).toEqual(before);
  });
});

describe('who may test a beat', () => {
  it('a reader may, another organization and an unknown id get 404', async () => {
    const { params } = await make();
    for (const client of [api.read, api.viewer, api.member, api.operator]) {
      expect((await client.call('testBeat', { params })).status).toBe(200);
    }
    expect((await api.other.manage.call('testBeat', { params })).status).toBe(404);
    expect((await api.other.owner.call('testBeat', { params })).status).toBe(404);
    expect((await api.read.call('testBeat', { params: { monitorId: 'none' } })).status).toBe(404);
    expect((await api.anonymous.call('testBeat', { params })).status).toBe(401);
  });

  it('a suspended organization may, and learns that its beats are refused', async () => {
    const monitor = await make();
    const set = (state: string) =>
      api.pool.query('update organizations set service_state = $2 where organization_id = $1', [
        api.organizationId,
        state,
      ]);
    await set('canceled');
    try {
      expect(await monitor.test({})).toEqual(refused('body', 'service_suspended'));
    } finally {
      await set('active');
    }
  });
});

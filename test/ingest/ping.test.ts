// The ping addresses on a real server and a real database: every form of docs/contract/beats.md.
// Holds: pingSuccess, pingSuccessHead, pingSuccessPost.
// Holds: pingStart, pingStartHead, pingStartPost.
// Holds: pingFail, pingFailHead, pingFailPost.
// Holds: pingLog, pingLogHead, pingLogPost.
// Holds: pingExitStatus, pingExitStatusHead, pingExitStatusPost.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seedMonitor, seedProject } from '../support/seed.ts';
import { incidentsOf, liveOf, observationsOf, timelineOf } from '../support/stored-rows.ts';
import { openPingFixture, type PingFixture } from './ping-fixture.ts';

let ping: PingFixture;

beforeAll(async () => {
  ping = await openPingFixture();
});
afterAll(() => ping?.close());

const json = { accept: 'application/json' };
const send = (path: string, init: RequestInit = {}) => fetch(`${ping.url}/ping/${path}`, init);
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  send(path, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...json, ...headers },
  });

/** A log with that many measurements. */
const logWith = (count: number) => {
  const measurements = Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${index}`, index]));
  return JSON.stringify({ status: 'log', measurements });
};

describe('addresses', () => {
  it('a beat by GET, HEAD or POST is stored and answered OK in text', async () => {
    const monitor = await ping.makeMonitor();
    for (const method of ['GET', 'HEAD', 'POST']) {
      const response = await send(monitor.address, { method });
      expect(response.status).toBe(200);
      expect(response.headers.get('ping-body-limit')).toBe('1024');
      expect(await response.text()).toBe(method === 'HEAD' ? '' : 'OK');
    }
    const observations = await observationsOf(ping.pool, monitor);
    expect(observations.map((row) => [row.sequence, row.kind])).toEqual([
      [1, 'success'],
      [2, 'success'],
      [3, 'success'],
    ]);
  });

  it('a sender that accepts JSON gets the sequence and the next deadline', async () => {
    const monitor = await ping.makeMonitor();
    const answer = await (await send(monitor.address, { headers: json })).json();
    const live = await liveOf(ping.pool, monitor);
    expect(answer).toEqual({
      accepted: true,
      monitorId: monitor.monitorId,
      sequence: 1,
      receivedAt: new Date(live.last_beat_ms).toISOString(),
      nextDeadlineAt: new Date(live.last_beat_ms + 120_000).toISOString(),
      violations: [],
    });
    expect(live.deadline_ms).toBe(live.last_beat_ms + 120_000);
  });

  it.each(['GET', 'HEAD', 'POST'])(
    'the suffix of the address makes a %s a start, a log, a fail or an exit status',
    async (method) => {
      const monitor = await ping.makeMonitor();
      for (const suffix of ['start', 'log', '0', 'fail', '3', '255']) {
        expect((await send(`${monitor.address}/${suffix}`, { method })).status).toBe(200);
      }
      const rows = await observationsOf(ping.pool, monitor);
      expect(rows.map((row) => [row.kind, row.exit_status])).toEqual([
        ['start', null],
        ['log', null],
        ['success', 0],
        ['fail', null],
        ['fail', 3],
        ['fail', 255],
      ]);
      expect(rows[2].duration_seconds).toBeGreaterThanOrEqual(0);
    },
  );

  it('an address in upper case is the same address', async () => {
    const monitor = await ping.makeMonitor();
    expect((await send(monitor.address.toUpperCase())).status).toBe(200);
  });

  it.each(['256', '-1', '00', '01', 'begin', 'start/', '%2e%2e', 'start%00'])(
    'a beat with the unknown suffix %s is answered 404 and not stored',
    async (suffix) => {
      const monitor = await ping.makeMonitor();
      expect((await send(`${monitor.address}/${suffix}`)).status).toBe(404);
      expect(await observationsOf(ping.pool, monitor)).toEqual([]);
    },
  );

  it('a beat to an unknown address is answered 404 with a hint at publishUrl', async () => {
    for (const address of [randomUUID(), 'nightly-backup', "'%20or%201=1"]) {
      const response = await send(address);
      expect(response.status).toBe(404);
      expect(await response.text()).toContain('publishUrl');
    }
  });

  it('a refusal does not show the address, which is the secret, and has no instance', async () => {
    const monitor = await ping.makeMonitor();
    for (const suffix of ['/256', '?rid=a', '/start']) {
      const answer = await post(`${monitor.address}${suffix}`, '{');
      expect(answer.status).toBeGreaterThanOrEqual(400);
      const problem = await answer.json();
      expect(problem).not.toHaveProperty('instance');
      expect(JSON.stringify([problem, ...answer.headers])).not.toContain(monitor.address);
    }
  });

  it('a rotated address takes beats until its end', async () => {
    const monitor = await ping.makeMonitor();
    const old = randomUUID();
    await ping.pool.query(
      "insert into publish_addresses (address, project_id, monitor_key, ends_at) values ($1, $2, $3, now() + interval '1 hour')",
      [old, monitor.projectId, monitor.monitorKey],
    );
    expect((await send(old)).status).toBe(200);
    await ping.pool.query(
      "update publish_addresses set ends_at = now() - interval '1 second' where address = $1",
      [old],
    );
    await ping.pool.query('update monitors set configuration_version = 2 where monitor_key = $1', [
      monitor.monitorKey,
    ]);
    await ping.pool.query('update monitor_live set configuration_version = 2 where monitor_key = $1', [
      monitor.monitorKey,
    ]);
    expect((await send(old)).status).toBe(404);
    expect((await send(monitor.address)).status).toBe(200);
  });

  it('a beat to an archived monitor is refused with 409 and not stored', async () => {
    const monitor = await ping.makeMonitor({ configuration: { lifecycle: 'archived' } });
    expect((await send(monitor.address)).status).toBe(409);
    expect(await observationsOf(ping.pool, monitor)).toEqual([]);
  });
});

describe('bodies', () => {
  it('a JSON beat is stored with its measurements, message, time, run and exit status', async () => {
    const monitor = await ping.makeMonitor();
    const response = await post(`${monitor.address}?rid=from-query`, {
      measurements: { rows: 12.5 },
      message: 'all well\u0000',
      observedAt: '2026-01-31T09:00:00+01:00',
      runId: 'run-1',
      exitStatus: 0,
    });
    expect(response.status).toBe(200);
    const [row] = await observationsOf(ping.pool, monitor);
    expect(row).toMatchObject({
      kind: 'success',
      measurements: { rows: 12.5 },
      message: 'all well\uFFFD',
      run_id: 'run-1',
      exit_status: 0,
    });
    expect(row.observed_at.toISOString()).toBe('2026-01-31T08:00:00.000Z');
  });

  it('an exit status other than 0 is a failure unless the status of the beat says otherwise', async () => {
    const monitor = await ping.makeMonitor();
    await post(monitor.address, { exitStatus: 2 });
    await post(monitor.address, { exitStatus: 2, status: 'success' });
    await post(monitor.address, '');
    expect((await observationsOf(ping.pool, monitor)).map((row) => row.kind)).toEqual([
      'fail',
      'success',
      'success',
    ]);
  });

  it.each<[string, number, string | Uint8Array<ArrayBuffer>, Record<string, string>]>([
    ['malformed JSON', 400, '{"measurements":', {}],
    ['an unknown field', 400, '{"mesurements":{},"runId":"a"}', {}],
    ['a field stated twice', 400, '{"status":"success","status":"fail"}', {}],
    ['a measurement stated twice', 400, '{"measurements":{"rows":1,"rows":2}}', {}],
    ['a number out of range', 400, '{"measurements":{"rows":1e999}}', {}],
    ['a measurement as text', 400, '{"measurements":{"rows":"1"}}', {}],
    ['a bad measurement key', 400, '{"measurements":{"Rows":1}}', {}],
    ['a long message', 400, JSON.stringify({ message: 'x'.repeat(1025) }), {}],
    ['a bad time', 400, '{"observedAt":"yesterday"}', {}],
    ['a bad status', 400, '{"status":"done"}', {}],
    ['an exit status out of range', 400, '{"exitStatus":256}', {}],
    ['JSON that is not UTF-8', 400, new Uint8Array([0x7b, 0xff, 0x7d]), {}],
    ['invalid gzip', 400, '{}', { 'content-encoding': 'gzip' }],
    ['an unknown content encoding', 415, '{}', { 'content-encoding': 'br' }],
    ['more bytes than allowed', 413, JSON.stringify({ message: 'x'.repeat(17_000) }), {}],
    ['a bad Idempotency-Key', 400, '{}', { 'idempotency-key': '-bad' }],
  ])(
    'a body with %s is refused with %i and still moves the deadline',
    async (_name, status, body, headers) => {
      const monitor = await ping.makeMonitor({
        live: { deadline_ms: Date.now() + 1000, anchor_ms: Date.now() - 119_000 },
      });
      const response = await send(monitor.address, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', ...headers },
      });
      expect(response.status).toBe(status);
      expect(await response.text()).toMatch(/ The deadline was still moved\.\n$/);
      const live = await liveOf(ping.pool, monitor);
      expect(live.deadline_ms).toBeGreaterThan(Date.now() + 100_000);
      expect(live.last_sequence).toBe(0);
      expect(await observationsOf(ping.pool, monitor)).toEqual([]);
    },
  );

  it.each<[string, number, string, RequestInit]>([
    ['a log under the key of another beat', 409, '/log', { headers: { 'idempotency-key': 'taken' } }],
    ['a start under the key of another beat', 409, '/start', { headers: { 'idempotency-key': 'taken' } }],
    ['a log with a bad Idempotency-Key', 400, '/log', { headers: { 'idempotency-key': '-bad' } }],
    ['a log whose body is not JSON', 400, '/log', { body: '{' }],
    ['a start whose body is too large', 413, '/start', { body: `{"message":"${'x'.repeat(17_000)}"}` }],
    ['a log by its body, with a bad measurement', 400, '', { body: '{"status":"log","measurements":[]}' }],
    ['a start by its body, with a bad run id', 400, '', { body: '{"status":"start","runId":"-"}' }],
    ['a log with more measurements than the plan', 403, '', { body: logWith(5) }],
  ])('%s is refused with %i and moves no deadline, as an accepted one', async (_name, status, path, init) => {
    const monitor = await seedMonitor(ping.pool, await seedProject(ping.pool, 'free'));
    await send(monitor.address, { headers: { 'idempotency-key': 'taken' } });
    const before = await liveOf(ping.pool, monitor);
    const headers = { 'content-type': 'application/json', ...init.headers };
    const refused = await send(`${monitor.address}${path}`, { method: 'POST', ...init, headers });
    expect(refused.status).toBe(status);
    expect(await refused.text()).toMatch(/ The deadline was not moved\.\n$/);
    expect(await liveOf(ping.pool, monitor)).toEqual(before);
  });

  it('a status that contradicts the suffix of the address is refused', async () => {
    const monitor = await ping.makeMonitor();
    expect((await post(`${monitor.address}/fail`, { status: 'success' })).status).toBe(400);
    expect((await post(`${monitor.address}/3`, { exitStatus: 4 })).status).toBe(400);
    expect((await post(`${monitor.address}/fail`, { status: 'fail' })).status).toBe(200);
  });

  it('a refused beat starts no clock', async () => {
    const monitor = await ping.makeMonitor();
    const refused = await post(monitor.address, '{');
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain('The deadline was not moved.');
    expect((await liveOf(ping.pool, monitor)).deadline_ms).toBeNull();
  });
});

describe('idempotency keys', () => {
  it('a beat that is sent again with its Idempotency-Key counts once, also by GET and at the same moment', async () => {
    const monitor = await ping.makeMonitor();
    const headers = { ...json, 'idempotency-key': 'run-77' };
    const duplicates = await Promise.all(
      Array.from({ length: 20 }, () => send(monitor.address, { headers })),
    );
    const answers = (await Promise.all(duplicates.map((duplicate) => duplicate.json()))) as {
      sequence: number;
    }[];
    expect(new Set(answers.map((answer) => answer.sequence))).toEqual(new Set([1]));
    expect(await (await send(monitor.address, { headers })).json()).toEqual(answers[0]);
    expect(await observationsOf(ping.pool, monitor)).toHaveLength(1);
  });
});

describe('runs', () => {
  it('a rid ties the start and the end of a run together, and the end records the duration', async () => {
    const monitor = await ping.makeMonitor({ configuration: { max_runtime_seconds: 600 } });
    await send(`${monitor.address}/start?rid=a`);
    await send(`${monitor.address}/start?rid=b`);
    expect((await liveOf(ping.pool, monitor)).open_runs).toHaveLength(2);
    await send(`${monitor.address}?rid=a`);
    const live = await liveOf(ping.pool, monitor);
    expect(live.open_runs.map((run: { runId: string }) => run.runId)).toEqual(['b']);
    const rows = await observationsOf(ping.pool, monitor);
    expect(rows[2]).toMatchObject({ run_id: 'a', kind: 'success' });
    expect(rows[2].duration_seconds).not.toBeNull();
  });
});

describe('limits', () => {
  it('a log over the cadence of the plan is answered 429 and moves no deadline', async () => {
    const monitor = await seedMonitor(ping.pool, await seedProject(ping.pool, 'free'));
    await send(monitor.address);
    await send(monitor.address);
    const before = await liveOf(ping.pool, monitor);
    expect((await send(`${monitor.address}/log`)).status).toBe(429);
    expect(await liveOf(ping.pool, monitor)).toEqual(before);
  });

  it('a beat over the cadence of the plan is answered 429, is not recorded and moves the deadline', async () => {
    const free = await seedProject(ping.pool, 'free');
    const monitor = await seedMonitor(ping.pool, free);
    const statuses: number[] = [];
    for (let beat = 0; beat < 4; beat += 1) statuses.push((await send(monitor.address)).status);
    expect(statuses).toEqual([200, 200, 429, 429]);
    const refused = await send(monitor.address);
    // One beat per 30 s, less the time since the first one.
    expect(refused.headers.get('retry-after')).toMatch(/^([1-9]|[12]\d|30)$/);
    const live = await liveOf(ping.pool, monitor);
    expect(live.last_sequence).toBe(2);
    expect(live.anchor_ms).toBeGreaterThan(live.last_beat_ms);
  });

  it('a beat to a suspended organization is answered 403 and moves the deadline', async () => {
    const suspended = await seedProject(ping.pool);
    await ping.pool.query("update organizations set service_state = 'canceled' where organization_id = $1", [
      suspended.organizationId,
    ]);
    const monitor = await seedMonitor(ping.pool, suspended, {
      live: { deadline_ms: 1, anchor_ms: 0 },
    });
    expect((await send(monitor.address)).status).toBe(403);
    expect((await liveOf(ping.pool, monitor)).deadline_ms).toBeGreaterThan(Date.now());
  });
});

describe('incidents', () => {
  it('a failure opens a reported_failure incident at once, and the next success recovers it', async () => {
    const monitor = await ping.makeMonitor();
    await send(`${monitor.address}/7`);
    const find = () => incidentsOf(ping.pool, monitor);
    expect(await find()).toMatchObject([
      { kind: 'reported_failure', state: 'open', severity: 'critical', open_sequence: 1 },
    ]);
    await send(`${monitor.address}/fail`);
    expect(await find()).toMatchObject([{ state: 'open', violation_count: 2 }]);
    await send(monitor.address);
    const rows = await find();
    expect(rows).toMatchObject([{ state: 'recovered', last_sequence: 3 }]);
    expect((await liveOf(ping.pool, monitor)).open_incidents).toBe(0);
    const timeline = await timelineOf(ping.pool, rows[0].incident_id);
    expect(timeline.map((row) => row.type)).toEqual([
      'opened',
      'suppressed',
      'recovering',
      'recovered',
      'suppressed',
    ]);
  });

  it('failures that arrive at the same moment open one incident', async () => {
    const monitor = await ping.makeMonitor();
    await Promise.all(Array.from({ length: 30 }, () => send(`${monitor.address}/fail`)));
    expect(await incidentsOf(ping.pool, monitor)).toMatchObject([{ violation_count: 30 }]);
    expect((await observationsOf(ping.pool, monitor)).map((row) => row.sequence)).toEqual(
      Array.from({ length: 30 }, (_, index) => index + 1),
    );
  });
});

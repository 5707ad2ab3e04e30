// `status: "cancel"` and the duration by `observedAt`, on a real server and a real database (docs/contract/beats.md).
// Holds: pingSuccessPost.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { SeedMonitor } from '../support/seed.ts';
import { incidentsOf, liveOf, observationsOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { openPingFixture, type PingFixture, startPingServer } from './ping-fixture.ts';

let ping: PingFixture;

beforeAll(async () => {
  ping = await openPingFixture({ lanes: 2 });
});
afterAll(() => ping?.close());

const send = (
  monitor: SeedMonitor,
  body: object,
  {
    headers = {},
    suffix = '',
    url = ping.url,
  }: { headers?: Record<string, string>; suffix?: string; url?: string } = {},
) =>
  fetch(`${url}/ping/${monitor.address}${suffix}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });

const forJson = { accept: 'application/json' };
const runsOf = async (monitor: SeedMonitor) => (await liveOf(ping.pool, monitor)).open_runs;

it('a cancel is recorded as a log with its message, closes its run and moves nothing', async () => {
  const monitor = await ping.makeMonitor();
  await send(monitor, { status: 'start', runId: 'job-1' });
  await send(monitor, { status: 'start', runId: 'job-2' });
  const before = await liveOf(ping.pool, monitor);
  const cancel = { status: 'cancel', runId: 'job-1', message: 'The Job was deleted.' };
  const answer = await send(monitor, cancel, { headers: forJson });
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({ sequence: 3, violations: [] });
  const observations = await observationsOf(ping.pool, monitor);
  expect(observations.at(-1)).toMatchObject({
    ...{ kind: 'log', run_id: 'job-1', message: 'The Job was deleted.', late: false, duration_seconds: null },
  });
  const after = await liveOf(ping.pool, monitor);
  expect(after.open_runs).toMatchObject([{ runId: 'job-2' }]);
  const { deadline_ms, anchor_ms, last_beat_ms, last_duration_ms } = before;
  expect(after).toMatchObject({ deadline_ms, anchor_ms, last_beat_ms, last_duration_ms });
});

it('a cancel is no first beat and starts no clock', async () => {
  const monitor = await ping.makeMonitor();
  expect((await send(monitor, { status: 'cancel' })).status).toBe(200);
  expect(await liveOf(ping.pool, monitor)).toMatchObject({
    ...{ first_beat_ms: null, last_beat_ms: null, deadline_ms: null, last_sequence: 1 },
  });
});

it('a cancel without a runId closes the run without one', async () => {
  const monitor = await ping.makeMonitor();
  await send(monitor, { status: 'start' });
  await send(monitor, { status: 'start', runId: 'job' });
  await send(monitor, { status: 'cancel' });
  expect(await runsOf(monitor)).toMatchObject([{ runId: 'job' }]);
});

it('a canceled run opens no overdue_run, and one that is open stays so until a success', async () => {
  const monitor = await ping.makeMonitor({ configuration: { max_runtime_seconds: 1 } });
  const other = await ping.makeMonitor({ configuration: { max_runtime_seconds: 1 } });
  for (const one of [monitor, other]) await send(one, { status: 'start', runId: 'job' });
  await send(monitor, { status: 'cancel', runId: 'job' });
  await ping.pool.query(
    `update monitor_live set wake_ms = 1, open_runs = jsonb_set(open_runs, '{0,dueMs}', '1') where open_runs is not null`,
  );
  await moveClock(ping.pool);
  await drain(makeSweep(ping.pool));
  expect(await incidentsOf(ping.pool, monitor)).toEqual([]);
  expect(await incidentsOf(ping.pool, other)).toMatchObject([{ kind: 'overdue_run', state: 'open' }]);
  await send(other, { status: 'cancel', runId: 'job' });
  expect(await incidentsOf(ping.pool, other)).toMatchObject([{ kind: 'overdue_run', state: 'open' }]);
  await send(other, { status: 'success' });
  expect(await incidentsOf(ping.pool, other)).toMatchObject([{ kind: 'overdue_run', state: 'recovered' }]);
});

it('the key of a start does not pass for a cancel, and a cancel that is sent again counts once', async () => {
  const monitor = await ping.makeMonitor();
  const key = { headers: { 'idempotency-key': randomUUID() } };
  await send(monitor, { status: 'start', runId: 'job' }, key);
  const reused = await send(monitor, { status: 'cancel', runId: 'job' }, key);
  expect(reused.status).toBe(409);
  expect(await reused.text()).toMatch(/another beat.*The deadline was not moved\.\s*$/);
  expect(await runsOf(monitor)).toHaveLength(1);
  const own = { headers: { 'idempotency-key': randomUUID(), ...forJson } };
  const cancels = Array.from({ length: 5 }, () => send(monitor, { status: 'cancel', runId: 'job' }, own));
  const answers = await Promise.all(
    cancels.map(async (answer) => JSON.parse(await (await answer).text()).sequence),
  );
  expect(answers).toEqual([2, 2, 2, 2, 2]);
  // A log with the same fields under the same key is another beat.
  expect((await send(monitor, { status: 'log', runId: 'job' }, own)).status).toBe(409);
  expect(await runsOf(monitor)).toBeNull();
});

it('a start and cancels of it at the same moment leave no run, or the run of the start that came last', async () => {
  const monitor = await ping.makeMonitor();
  const statuses = ['start', 'cancel', 'cancel', 'cancel'];
  await Promise.all(statuses.map((status) => send(monitor, { status, runId: 'job' })));
  const kinds = (await observationsOf(ping.pool, monitor)).map(({ kind }) => kind);
  expect(kinds.toSorted()).toEqual(['log', 'log', 'log', 'start']);
  const isLast = kinds.at(-1) === 'start';
  expect(await runsOf(monitor)).toEqual(isLast ? [expect.objectContaining({ runId: 'job' })] : null);
});

it('a cancel whose content is refused moves nothing and closes nothing; the address of a log takes none', async () => {
  const monitor = await ping.makeMonitor();
  await send(monitor, { status: 'success' });
  await send(monitor, { status: 'start', runId: 'job' });
  const before = await liveOf(ping.pool, monitor);
  const bad = await send(monitor, { status: 'cancel', runId: 'job', exitStatus: 999 });
  expect(bad.status).toBe(400);
  expect(await bad.text()).toMatch(/The deadline was not moved\.\s*$/);
  const contradicting = await send(monitor, { status: 'cancel', runId: 'job' }, { suffix: '/log' });
  expect(contradicting.status).toBe(400);
  expect(await contradicting.text()).toMatch(/status: The address says log/);
  expect(await liveOf(ping.pool, monitor)).toEqual(before);
});

it('a cancel of a suspended organization is refused, closes its run and moves no deadline', async () => {
  const monitor = await ping.makeMonitor();
  await send(monitor, { status: 'success' });
  await send(monitor, { status: 'start', runId: 'job' });
  const { deadline_ms } = await liveOf(ping.pool, monitor);
  await ping.pool.query(`update organizations set service_state = 'canceled'`);
  // It knows nothing of the time before.
  const other = await startPingServer(ping.databaseUrl);
  try {
    const refused = await send(monitor, { status: 'cancel', runId: 'job' }, { url: other.url });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toMatch(/The deadline was not moved\.\s*$/);
    expect(await liveOf(ping.pool, monitor)).toMatchObject({ open_runs: null, deadline_ms });
  } finally {
    await other.close();
    await ping.pool.query(`update organizations set service_state = 'active'`);
  }
});

it('the duration of a run that comes late is that of its observedAt', async () => {
  const monitor = await ping.makeMonitor();
  await send(monitor, { status: 'start', runId: 'job', observedAt: '2026-01-31T08:00:00Z' });
  await send(monitor, { status: 'success', runId: 'job', observedAt: '2026-01-31T10:00:00.500Z' });
  await send(monitor, { status: 'start', runId: 'job', observedAt: '2026-01-31T08:00:00Z' });
  await send(monitor, { status: 'success', runId: 'job', observedAt: '2026-01-31T07:00:00Z' });
  const rows = await observationsOf(ping.pool, monitor);
  expect(rows[1]?.duration_seconds).toBe(7_200.5);
  expect(rows[3]?.duration_seconds).toBeLessThan(600);
});

// Monitors of organizations that are suspended, on a real database: they rest, and come back.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { isServed, SERVED_STATES } from '../../src/domain/plan.ts';
import { SERVICE_STATES, type ServiceState } from '../../src/domain/problem.ts';
import { findRestingProjects } from '../../src/store/monitors/resting-monitors.ts';
import type { Database } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { endRests, type RestSweepOptions } from '../../src/sweeper/deadlines/end-rests.ts';
import { startPingServer } from '../ingest/ping-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { rowsReadBy } from '../support/pages.ts';
import { type SeedMonitor, type SeedProject, seedMonitors, seedProject } from '../support/seed.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { drain, makeParts, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

let fixture: ProjectFixture;
beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

/** Monitors with an interval and a grace of one minute, whose deadline has passed long ago. */
async function seedSilent(project: SeedProject, count: number): Promise<SeedMonitor[]> {
  const beatMs = (await readNow(fixture.pool)) - HOUR_MS;
  const moments = { anchor_ms: beatMs, first_beat_ms: beatMs, last_beat_ms: beatMs, last_success_ms: beatMs };
  const due = { deadline_ms: beatMs + 2 * MINUTE_MS, wake_ms: beatMs + MINUTE_MS };
  return await seedMonitors(fixture.pool, project, count, { live: { ...moments, last_sequence: 1, ...due } });
}

const setState = ({ organizationId }: SeedProject, state: string) =>
  fixture.pool.query('update organizations set service_state = $2 where organization_id = $1', [
    organizationId,
    state,
  ]);

async function sweep(): Promise<void> {
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
}

/** A replica that ends rests until none of an organization that is active is left. */
const endAll = (options: Partial<RestSweepOptions> = {}) =>
  drain({
    run: () => endRests({ ...makeParts(), pool: fixture.pool, minimumIntervalMs: MINUTE_MS, ...options }),
  });

const livesOf = (monitors: readonly SeedMonitor[]) =>
  Promise.all(monitors.map((monitor) => liveOf(fixture.pool, monitor)));

/** As if so much time had passed since. */
const age = (ms: number) =>
  fixture.pool.query(
    'update monitor_live set anchor_ms = anchor_ms - $1, deadline_ms = deadline_ms - $1, wake_ms = wake_ms - $1',
    [ms],
  );

it('nothing opens and nothing wakes while the organization is suspended; after its return silent jobs are found', async () => {
  const { pool, project } = fixture;
  const monitors = await seedSilent(project, 5);
  await setState(project, 'canceled');
  await sweep();
  const resting = await livesOf(monitors);
  for (const row of resting) expect(row).toMatchObject({ deadline_ms: null, wake_ms: null });
  // No sweep writes them again, however often it comes.
  await sweep();
  await endAll();
  expect(await livesOf(monitors)).toEqual(resting);

  await setState(project, 'active');
  // Two replicas share the rows.
  const returnedMs = await readNow(pool);
  await Promise.all([endAll({ batchSize: 2 }), endAll({ batchSize: 2 })]);
  await endAll();
  for (const row of await livesOf(monitors)) {
    expect(row.rests_since_ms).toBeNull();
    expect(row.deadline_ms).toBeGreaterThanOrEqual(returnedMs + 2 * MINUTE_MS);
    expect(row.deadline_ms).toBeLessThanOrEqual((await readNow(pool)) + 2 * MINUTE_MS);
    expect(row.wake_ms).toBe(row.deadline_ms - MINUTE_MS);
  }
  await sweep();
  for (const monitor of monitors) expect(await incidentsOf(pool, monitor)).toEqual([]);
  await age(2 * MINUTE_MS);
  await sweep();
  for (const monitor of monitors)
    expect(await incidentsOf(pool, monitor)).toMatchObject([{ kind: 'missed_deadline', state: 'open' }]);
});

it('a suspension that no sweeper saw leaves a full interval and grace; then a dead job is found', async () => {
  const { pool, project } = fixture;
  const monitors = await seedSilent(project, 3);
  await setState(project, 'canceled');
  await setState(project, 'active');
  const returnedMs = await readNow(pool);
  await sweep();
  for (const monitor of monitors) {
    expect(await incidentsOf(pool, monitor)).toEqual([]);
    expect((await liveOf(pool, monitor)).deadline_ms).toBeGreaterThanOrEqual(returnedMs + 2 * MINUTE_MS);
  }
  // A return that was earlier: the deadline after it was missed in service.
  await pool.query(`update organizations set returned_at = returned_at - interval '2 minutes'`);
  await age(2 * MINUTE_MS);
  await sweep();
  for (const monitor of monitors)
    expect(await incidentsOf(pool, monitor)).toMatchObject([{ kind: 'missed_deadline', state: 'open' }]);
});

it('a run that is overdue when the rest ends alerts at once, and is counted', async () => {
  const { pool, project } = fixture;
  const monitors = await seedSilent(project, 1);
  await setState(project, 'canceled');
  await sweep();
  await setState(project, 'active');
  await pool.query(`update organizations set returned_at = returned_at - interval '1 hour'`);
  const startedMs = (await readNow(pool)) - 10 * MINUTE_MS;
  await pool.query('update monitors set max_runtime_seconds = 60');
  await pool.query('update monitor_live set open_runs = $1', [
    JSON.stringify([{ runId: null, startedMs, dueMs: startedMs + MINUTE_MS }]),
  ]);
  const parts = makeParts();
  const onTransitions = vi.fn();
  await endAll({ ...parts, onTransitions });
  expect(onTransitions).toHaveBeenCalledOnce();
  expect(await parts.metrics.incidentsOpened.get()).toMatchObject({
    values: [{ labels: { kind: 'overdue_run' }, value: 1 }],
  });
  for (const monitor of monitors)
    expect(await incidentsOf(pool, monitor)).toMatchObject([{ kind: 'overdue_run', state: 'open' }]);
});

it('the database notes each return and each suspension, whoever changes the state', async () => {
  const { pool, project } = fixture;
  const noted = async (column: 'returned_at' | 'suspended_at') =>
    (await pool.query(`select ${column} as at from organizations`)).rows[0].at as Date | null;
  const returned = () => noted('returned_at');
  await pool.query('update organizations set grace_ends_at = clock_timestamp()');
  for (const from of [...SERVICE_STATES, 'of a newer version']) {
    for (const to of SERVICE_STATES) {
      await setState(project, from);
      await pool.query('update organizations set returned_at = null');
      await setState(project, to);
      const isReturn = !isServed(from as ServiceState) && isServed(to);
      expect([from, to, (await returned()) !== null]).toEqual([from, to, isReturn]);
      expect([from, to, (await noted('suspended_at')) === null]).toEqual([from, to, isServed(to)]);
    }
  }
  // A time that is stated counts.
  const stated = new Date('2026-01-01T00:00:00Z');
  await setState(project, 'canceled');
  await pool.query(`update organizations set service_state = 'active', returned_at = $1`, [stated]);
  expect(await returned()).toEqual(stated);
  await pool.query(`update organizations set service_state = 'canceled', suspended_at = $1`, [stated]);
  await setState(project, 'deleting');
  expect(await noted('suspended_at')).toEqual(stated);
});

it('of many organizations those alone come back that are active or in payment grace', async () => {
  const { pool, project } = fixture;
  const states = ['canceled', 'active', 'deleting', 'payment_grace', 'abuse_suspended'];
  const projects = [project];
  while (projects.length < states.length) projects.push(await seedProject(pool));
  const monitors = [];
  for (const one of projects) monitors.push(...(await seedSilent(one, 2)));
  for (const one of projects) await setState(one, 'deleting');
  await sweep();
  const all = projects.map(({ projectId }) => projectId).sort();
  expect(await findRestingProjects(pool, ['deleting'], { looks: 100 })).toEqual({ projectIds: all });
  await pool.query('update organizations set grace_ends_at = $1', [new Date(await readNow(pool))]);
  for (const [index, one] of projects.entries()) await setState(one, states[index] ?? '');
  // Page by page, whatever the state of the projects of a page.
  await endAll({ looks: 1 });
  const running = (await livesOf(monitors)).map(({ deadline_ms: deadlineMs }) => deadlineMs !== null);
  expect(running).toEqual([false, false, true, true, false, false, true, true, false, false]);
});

it.each([
  { batchSize: undefined, refused: 1 },
  { batchSize: 4, refused: 1 },
  { batchSize: 4, refused: 5 },
  { batchSize: 1, refused: 2 },
])(
  'monitors at fault hold up no other: batches of $batchSize, $refused refused',
  async ({ batchSize, refused }) => {
    const { pool, project } = fixture;
    const monitors = (await seedSilent(project, 12)).sort((a, b) => (a.monitorKey < b.monitorKey ? -1 : 1));
    await setState(project, 'canceled');
    await sweep();
    const atFault = monitors.slice(0, refused);
    const keys = atFault.map(({ monitorKey }) => `'${monitorKey}'`).join(', ');
    await pool.query(
      `alter table monitor_live add constraint refuse check (monitor_key not in (${keys}) or deadline_ms is null)`,
    );
    // And one that cannot be decided, behind them.
    const [unversioned] = monitors.slice(refused);
    await pool.query('update monitor_live set configuration_version = 7 where monitor_key = $1', [
      unversioned?.monitorKey,
    ]);
    await setState(project, 'active');
    const parts = makeParts();
    await endAll({ ...parts, batchSize });
    const { values } = await parts.metrics.monitorFaults.get();
    expect(values[0]?.value).toBeGreaterThan(refused);
    const rests = (await livesOf(monitors)).map(({ rests_since_ms: restsSinceMs }) => restsSinceMs !== null);
    expect(rests).toEqual(monitors.map((_, index) => index <= refused));

    await pool.query('alter table monitor_live drop constraint refuse');
    await pool.query('update monitor_live set configuration_version = 1');
    await endAll({ batchSize });
    for (const row of await livesOf(monitors)) expect(row.deadline_ms).not.toBeNull();
  },
);

it('a beat that comes before a sweeper has seen the return ends the rest itself, and is not late', async () => {
  const { pool, project } = fixture;
  const monitors = await seedSilent(project, 2);
  await setState(project, 'canceled');
  await sweep();
  await setState(project, 'active');
  const server = await startPingServer(fixture.databaseUrl);
  try {
    const [success, start] = monitors;
    for (const [monitor, path] of [
      [success, ''],
      [start, '/start'],
    ] as const) {
      const answer = await fetch(`${server.url}/ping/${monitor?.address}${path}`);
      expect(answer.status).toBe(200);
    }
  } finally {
    await server.close();
  }
  for (const row of await livesOf(monitors)) {
    expect(row.rests_since_ms).toBeNull();
    expect(row.deadline_ms).toBeGreaterThan((await readNow(pool)) + MINUTE_MS);
  }
  const { rows } = await pool.query('select distinct late from observations');
  expect(rows).toEqual([{ late: false }]);
  await sweep();
  for (const monitor of monitors) expect(await incidentsOf(pool, monitor)).toEqual([]);
});

it('the first beat after a suspension that no sweeper saw is not late, and teaches no cadence', async () => {
  const { pool, project } = fixture;
  const silent = await seedSilent(project, 2);
  const [fixed, learned] = silent;
  await pool.query('update monitors set interval_seconds = null where monitor_key = $1', [
    learned?.monitorKey,
  ]);
  await setState(project, 'canceled');
  await setState(project, 'active');
  const server = await startPingServer(fixture.databaseUrl);
  try {
    for (const monitor of [fixed, learned]) {
      expect((await fetch(`${server.url}/ping/${monitor?.address}`)).status).toBe(200);
    }
  } finally {
    await server.close();
  }
  const { rows } = await pool.query('select late from observations');
  expect(rows).toEqual([{ late: false }, { late: false }]);
  for (const row of await livesOf(silent)) expect(row.gaps ?? []).toEqual([]);
});

it('who looks for rests reads as many rows for a project with thousands of them as for one with a few', async () => {
  const { pool, project } = fixture;
  await seedSilent(project, 3_000);
  await setState(project, 'deleting');
  await sweep();
  await pool.query('vacuum analyze monitor_live');
  const look = (db: Database) => findRestingProjects(db, SERVED_STATES, { looks: 100 });
  expect(await look(pool)).toEqual({ projectIds: [] });
  expect(await rowsReadBy(pool, 'find-resting-projects', look)).toBeLessThan(20);
});

// The lanes of a sweep of deadlines: each claims, decides and writes its batches, and waits for no other one.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import type { DeadlineSweep } from '../../src/sweeper/deadlines/sweep-deadlines.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, type SeedMonitor, seedMonitors } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const MONITORS = 300;
const BATCH = 25;

let fixture: ProjectFixture;
let sweep: DeadlineSweep;
let monitors: SeedMonitor[];

beforeEach(async () => {
  fixture = await openProjectFixture();
  sweep = makeSweep(fixture.pool, { batchSize: BATCH });
  // The first batch of a sweep has no other beside it.
  await seedDue(2 * BATCH);
  await drain(sweep);
  monitors = await seedDue(MONITORS);
});
afterEach(() => fixture?.close());

async function seedDue(count: number): Promise<SeedMonitor[]> {
  const { pool, project } = fixture;
  const seeded = await seedMonitors(pool, project, count, dueAt(await readNow(pool)));
  await moveClock(pool);
  return seeded;
}

async function incidents(): Promise<number> {
  const { rows } = await fixture.pool.query<{ count: number }>(
    'select count(*)::integer as count from incidents where monitor_key = any ($1)',
    [monitors.map(({ monitorKey }) => monitorKey)],
  );
  return rows[0]?.count ?? 0;
}

/** Runs `action` before each incident is written. */
async function beforeIncidents(action: string): Promise<void> {
  await fixture.pool.query(
    `create function before_incident() returns trigger language plpgsql as $$ begin ${action}; return new; end $$`,
  );
  await fixture.pool.query(
    'create trigger before_incident before insert on incidents for each row execute function before_incident()',
  );
}

/** Runs `work` while whoever writes the incident of one of the monitors waits. `work` calls `release`. */
async function withOneHeld(work: (release: () => Promise<unknown>) => Promise<void>): Promise<void> {
  const [held] = monitors;
  await beforeIncidents(
    `if new.monitor_key = '${held?.monitorKey}' then perform pg_advisory_xact_lock(7); end if`,
  );
  const { databaseUrl } = fixture;
  const holder = openPool({ databaseUrl, size: 1, applicationName: 'test', idleInTransactionMs: 60_000 });
  try {
    await holder.query('begin');
    await holder.query('select pg_advisory_xact_lock(7)');
    await work(() => holder.query('commit'));
  } finally {
    await holder.end();
  }
}

const WAITING = `select pid from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'advisory'`;

const areOthersWritten = async () => (await incidents()) === MONITORS - BATCH;

it('a lane whose batch waits holds up no other lane', async () => {
  await withOneHeld(async (release) => {
    const run = sweep.run();
    await waitFor(areOthersWritten, { what: 'the other batches are written' });
    await release();
    await run;
  });
  await drain(sweep);
  expect(await incidents()).toBe(MONITORS);
});

it('a run fails whose lane lost its connection, and the next runs find what that lane had claimed', async () => {
  await withOneHeld(async (release) => {
    const run = expect(sweep.run()).rejects.toThrow(/terminat/);
    await waitFor(areOthersWritten, { what: 'the other batches are written' });
    await fixture.pool.query(`select pg_terminate_backend(pid) from (${WAITING}) waiting`);
    await run;
    await release();
  });
  expect(await incidents()).toBe(MONITORS - BATCH);
  await drain(sweep);
  expect(await incidents()).toBe(MONITORS);
});

it('a sweep that is stopped begins no further batch', async () => {
  const stopped = new AbortController();
  let batches = 0;
  const onTransitions = () => {
    batches += 1;
    stopped.abort();
  };
  const { pool } = fixture;
  const stoppable = makeSweep(pool, { batchSize: BATCH, signal: stopped.signal, onTransitions });
  await stoppable.run();
  expect(batches).toBe(1);
  // Its pace is known: another run begins with all lanes, and each ends the batch that it has begun.
  await stoppable.run();
  expect(batches).toBeLessThanOrEqual(4);
  expect(await incidents()).toBe(batches * BATCH);
});

it('a monitor at fault in one bucket does not move its whole bucket to the end', async () => {
  const { pool, project } = fixture;
  await pool.query('delete from monitor_live where monitor_key = any ($1)', [
    monitors.map(({ monitorKey }) => monitorKey),
  ]);
  monitors = await seedDue(2_000);
  const { rows: buckets } = await pool.query<{ monitor_key: string }>(
    `select monitor_key from monitor_live where wake_ms is not null and sweep_bucket = (
       select sweep_bucket from monitor_live where project_id = $1 and monitor_key = $2)`,
    [project.projectId, monitors[0]?.monitorKey],
  );
  const neighbours = buckets.map((row) => row.monitor_key);
  const [fault] = neighbours;
  // The first of its bucket.
  await pool.query('update monitor_live set wake_ms = wake_ms - 100 where monitor_key = $1', [fault]);
  await beforeIncidents(
    `if new.monitor_key = '${fault}' then raise exception 'fault' using errcode = '23514'; end if`,
  );
  await drain(makeSweep(pool, { batchSize: 10 }));
  const { rows } = await pool.query<{ monitor_key: string }>(
    `select monitor_key from incidents where monitor_key = any ($1) order by opened_at, incident_id`,
    [monitors.map(({ monitorKey }) => monitorKey)],
  );
  const places = rows.flatMap((row, place) => (neighbours.includes(row.monitor_key) ? [place] : []));
  expect(places.length).toBe(neighbours.length - 1);
  // The rest of the bucket is not left until all others are done.
  expect(places[0]).toBeLessThan(rows.length * 0.8);
});

it('batches that Postgres asks to run again open each incident once', async () => {
  await fixture.pool.query('create sequence tries');
  await beforeIncidents(
    `if nextval('tries') in (1, 30) then raise exception 'again' using errcode = '40001'; end if`,
  );
  await drain(sweep);
  expect(await incidents()).toBe(MONITORS);
});

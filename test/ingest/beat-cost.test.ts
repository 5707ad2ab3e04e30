// What beats cost the database, in counters that no busy machine changes: updates that touch no index, WAL, statements.
// docs/adr/0002 and 0004 say where the figures come from.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { runPlainBeats } from '../../src/ingest/plain-beats.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedMonitors } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const BATCH = 32;
const MONITORS = 100 * BATCH;
const ROUNDS = 5;
const MOST_ROUNDS = 100;

let fixture: ProjectFixture;
let lane: Lane;

beforeAll(async () => {
  fixture = await openProjectFixture();
  // While it analyzes a table Postgres keeps every old version of a row, and this test writes hundreds to a page.
  await fixture.pool.query(`do $$ declare it regclass; begin
    for it in select oid from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' loop
      execute format('alter table %s set (autovacuum_enabled = false)', it);
    end loop; end $$`);
  lane = new Lane(fixture.databaseUrl);
  await waitFor(() => lane.connect().then(() => true), { what: 'the lane is connected' });
});
afterAll(async () => {
  await lane?.close();
  await fixture?.close();
});

/** Plain beats of new monitors, whose interval is so long. */
async function prepare(intervalMs: number): Promise<BeatItem[]> {
  const monitors = await seedMonitors(fixture.pool, fixture.project, MONITORS);
  const directory = new MonitorDirectory({
    db: fixture.pool,
    minimumIntervalMs: 60_000,
    patienceMs: 200_000,
  });
  const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
  return entries.flatMap((entry) => {
    if (!entry) return [];
    const { monitor } = entry;
    const timing = { ...monitor.timing, intervalMs };
    return [{ entry: { ...entry, monitor: { ...monitor, timing } }, beat: { kind: 'success' } }];
  });
}

/** Every monitor beats once, in batches of monitors in random order. Returns the number of statements. */
async function beatAll(items: BeatItem[]): Promise<number> {
  items.sort(() => Math.random() - 0.5);
  let statements = 0;
  for (let first = 0; first < items.length; first += BATCH) {
    await lane.write(async (connection, of) => {
      const query = (...statement: Parameters<Queryable['query']>) => {
        statements += 1;
        return connection.query(...statement);
      };
      const outcomes = await runPlainBeats({ query } as Queryable, items.slice(first, first + BATCH), of);
      expect(outcomes).not.toContain('ineligible');
    });
  }
  return statements;
}

interface Counters {
  updates: number;
  inPlace: number;
  /** Of the lane's connection alone. Undefined before Postgres 18, and where WAL has images of pages. */
  walBytes?: number;
}

/** Flushes what the lane's connection has counted. */
async function readCounters(): Promise<Counters> {
  return await lane.write(async (connection) => {
    await connection.query('select pg_stat_force_next_flush()');
    const { rows } = await connection.query(
      `select n_tup_upd as updates, n_tup_hot_upd as "inPlace" from pg_stat_user_tables where relname = 'monitor_live'`,
    );
    const { rows: known } = await connection.query(
      `select current_setting('full_page_writes') = 'off' and to_regproc('pg_stat_get_backend_wal') is not null as wal`,
    );
    if (!known[0].wal) return rows[0];
    const { rows: wal } = await connection.query(
      'select wal_bytes::bigint as "walBytes" from pg_stat_get_backend_wal(pg_backend_pid())',
    );
    return { ...rows[0], ...wal[0] };
  });
}

interface Cost {
  /** Share of the updates that touch no index. */
  inPlace: number;
  walBytes?: number;
  /** For each batch. */
  statements: number;
}

async function measureRound(items: BeatItem[]): Promise<Cost> {
  const before = await readCounters();
  const statements = await beatAll(items);
  const after = await readCounters();
  expect(after.updates - before.updates).toBe(MONITORS);
  const { walBytes } = after;
  return {
    inPlace: (after.inPlace - before.inPlace) / MONITORS,
    walBytes: walBytes === undefined ? undefined : (walBytes - (before.walBytes ?? 0)) / MONITORS,
    statements: statements / (MONITORS / BATCH),
  };
}

/**
 * The cost of a beat of each monitor: the median of the last five rounds. The rows have had two beats, after which they
 * don't grow. While another suite on the server has a long transaction, Postgres keeps old versions of rows, and pages
 * are full of them: then more rounds follow, until the median is as `isExpected` says.
 */
async function measure(intervalMs: number, isExpected: (cost: Cost) => boolean): Promise<Cost> {
  const items = await prepare(intervalMs);
  for (let round = 0; round < 2; round += 1) await beatAll(items);
  const costs: Cost[] = [];
  for (;;) {
    costs.push(await measureRound(items));
    if (costs.length < ROUNDS) continue;
    const cost = medianOf(costs.slice(-ROUNDS));
    if (costs.length === MOST_ROUNDS || isExpected(cost)) return cost;
  }
}

function medianOf(costs: readonly Cost[]): Cost {
  const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
  const wal = costs.flatMap(({ walBytes }) => walBytes ?? []);
  return {
    inPlace: middle(costs.map(({ inPlace }) => inPlace)),
    walBytes: wal.length === costs.length ? middle(wal) : undefined,
    statements: middle(costs.map(({ statements }) => statements)),
  };
}

it('of many beats in an interval at least 95 % touch no index of the live rows, each batch is one statement, and a beat writes at most 450 bytes of WAL', async () => {
  const cost = await measure(86_400_000, ({ inPlace, walBytes = 0 }) => inPlace >= 0.95 && walBytes <= 450);
  expect(cost.inPlace).toBeGreaterThanOrEqual(0.95);
  expect(cost.statements).toBe(1);
  expect(cost.walBytes ?? 0).toBeLessThanOrEqual(450);
});

it('a beat that moves its wake, as the only one in an interval does, writes at most 700 bytes of WAL', async () => {
  const cost = await measure(1, ({ walBytes = 0 }) => walBytes <= 700);
  expect(cost.inPlace).toBeLessThan(0.05);
  expect(cost.walBytes ?? 0).toBeLessThanOrEqual(700);
});

// What beats cost the database, in counters that no busy machine changes: statements, transactions, updates that touch no
// index, WAL. docs/adr/0002 and 0004 say where the figures come from.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findPostgresBinaries } from '../../src/dev/postgres/postgres-binaries.ts';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { runPlainBeats } from '../../src/ingest/plain-beats.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { openPool, type Pool, type Queryable } from '../../src/store/postgres/pool.ts';
import { OwnPostgres } from '../support/own-postgres.ts';
import { type SeedProject, seedMonitors, seedProject } from '../support/seed.ts';
import { openVirtualClock, type VirtualClock } from '../support/virtual-clock.ts';
import { waitFor } from '../support/wait-for.ts';

const BATCH = 32;
const BATCHES = 100;
const MONITORS = BATCHES * BATCH;
const INTERVAL_MS = 300_000;
const ROUNDS = 5;

const hasBinaries = (await findPostgresBinaries()) !== undefined;

let server: OwnPostgres;
let pool: Pool;
let project: SeedProject;
let lane: Lane;
let clock: VirtualClock;

/**
 * On a server of its own: while somebody else has a long transaction Postgres keeps every old version of a row, and this
 * test writes hundreds to a page. So it does while it analyzes a table.
 */
async function openServer(): Promise<void> {
  server = await OwnPostgres.create({ durable: false });
  await migrate({ databaseUrl: server.url });
  const limits = { statementTimeoutMs: 200_000, connectTimeoutMs: 200_000 };
  pool = openPool({ databaseUrl: server.url, size: 2, applicationName: 'beat-cost', ...limits });
  project = await seedProject(pool);
  await pool.query('alter system set autovacuum = off');
  await pool.query('select pg_reload_conf()');
  // The lane sees the test's clock too.
  await pool.query(`do $$ begin
    execute format('alter database %I set search_path = public, pg_catalog', current_database()); end $$`);
  // Moments of today, whose observations have a partition.
  clock = await openVirtualClock(server.url);
  await clock.pass(Date.now() - clock.nowMs);
  lane = new Lane(server.url);
  await waitFor(() => lane.connect().then(() => true), { what: 'the lane is connected' });
}

async function closeServer(): Promise<void> {
  await lane?.close();
  await clock?.close();
  await pool?.end();
  await server?.remove();
}

/** Plain beats of new monitors, whose wakes lie as they do after many beats `stepMs` apart. */
async function prepare(stepMs: number): Promise<BeatItem[]> {
  await pool.query('truncate monitors, monitor_live, publish_addresses, observations');
  const monitors = await seedMonitors(pool, project, MONITORS);
  // A wake stays for two fifths of an interval.
  const places = Math.floor((INTERVAL_MS * 2) / 5 / stepMs) + 1;
  await pool.query(`update monitor_live set wake_ms = $1::bigint - floor(random() * $2)::bigint * $3`, [
    clock.nowMs + INTERVAL_MS,
    places,
    stepMs,
  ]);
  await pool.query('vacuum full monitor_live');
  const directory = new MonitorDirectory({
    db: pool,
    minimumIntervalMs: 60_000,
    patienceMs: 200_000,
  });
  const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
  return entries.flatMap((entry) => {
    if (!entry) return [];
    const { monitor } = entry;
    const timing = { ...monitor.timing, intervalMs: INTERVAL_MS };
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
    statements: statements / BATCHES,
  };
}

/** The cost of a beat of each monitor: the median of five rounds. The rows have had two beats, after which they don't grow. */
async function measure(beatsInAnInterval: number): Promise<Cost> {
  const stepMs = INTERVAL_MS / beatsInAnInterval;
  const items = await prepare(stepMs);
  for (let round = 0; round < 2; round += 1) await beatAll(items);
  const costs: Cost[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await clock.pass(stepMs);
    costs.push(await measureRound(items));
  }
  return medianOf(costs);
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

describe.skipIf(!hasBinaries)('what beats cost', () => {
  beforeAll(openServer);
  afterAll(closeServer);

  it.each([
    { beats: 1, least: 0, most: 0.05, walBytes: 700 },
    { beats: 5, least: 0.6, most: 0.7, walBytes: 500 },
    { beats: 60, least: 0.95, most: 1, walBytes: 450 },
  ])(
    'where beats come $beats to an interval a batch is one statement and one transaction, of its updates $least to $most touch no index of the live rows, and a beat writes at most $walBytes bytes of WAL',
    async ({ beats, least, most, ...limits }) => {
      const cost = await measure(beats);
      expect(cost.statements).toBe(1);
      const { rows } = await pool.query(
        'select count(distinct changed_xid)::integer as transactions from monitor_live',
      );
      expect(rows).toEqual([{ transactions: BATCHES }]);
      expect(cost.inPlace).toBeGreaterThanOrEqual(least);
      expect(cost.inPlace).toBeLessThanOrEqual(most);
      expect(cost.walBytes ?? 0).toBeLessThanOrEqual(limits.walBytes);
    },
  );
});

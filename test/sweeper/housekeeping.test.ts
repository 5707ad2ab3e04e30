// The periodic jobs (partitions, retention, restore windows) and the leases that they run under, on a real database.

import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import {
  createPartitions,
  dropPartitions,
  PARTITIONED_TABLES,
  partitionAt,
} from '../../src/store/postgres/partitions.ts';
import { claimLease, releaseLease, renewLease } from '../../src/store/upkeep/sweeper-leases.ts';
import { type JobDeps, runUnderLease } from '../../src/sweeper/upkeep/job.ts';
import { sweepPartitions, watchDefaultPartitions } from '../../src/sweeper/upkeep/sweep-partitions.ts';
import { sweepRestoreWindows } from '../../src/sweeper/upkeep/sweep-restore-windows.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { startPingServer } from '../ingest/ping-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { seedEndpoint, seedMonitor } from '../support/seed.ts';
import { cancelAll, drain, makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const makeDeps = (): JobDeps => ({ pool: fixture.pool, slowPool: fixture.pool, ...makeParts() });

const [observations, buckets] = PARTITIONED_TABLES;
if (!observations || !buckets) throw new Error('no tables');

async function countOf(table: string, where = 'true'): Promise<number> {
  const { rows } = await fixture.pool.query<{ count: number }>(
    `select count(*)::integer as count from ${table} where ${where}`,
  );
  return rows[0]?.count ?? -1;
}
async function partitionsOf(table: string): Promise<string[]> {
  const { rows } = await fixture.pool.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1`,
    [table],
  );
  return rows.map(({ name }) => name);
}
function insertObservation(receivedAt: string, sequence = 1) {
  return fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     values ($1, gen_random_uuid(), $2, ${receivedAt}, 'success')`,
    [fixture.project.projectId, sequence],
  );
}
const keyMetrics = async (metric: { get(): Promise<{ values: { value: number; labels: object }[] }> }) =>
  (await metric.get()).values.map(({ labels, value }) => ({ ...labels, value }));

it('a fresh database has partitions for today and seven days ahead, so that no beat lands in the default partition', async () => {
  expect((await partitionsOf('observations')).length).toBe(1 + 8);
  expect((await partitionsOf('observation_buckets')).length).toBe(1 + 3);
  const monitor = await seedMonitor(fixture.pool, fixture.project);
  const server = await startPingServer(fixture.databaseUrl);
  expect((await fetch(`${server.url}/ping/${monitor.address}`)).status).toBe(200);
  await server.close();
  expect(await countOf('observations')).toBe(1);
  expect(await countOf('observations_default')).toBe(0);
});

const DAY_MS = 86_400_000;
const leftOfDayMs = () => DAY_MS - (Date.now() % DAY_MS);

describe('partitions', () => {
  // A test asks for the partitions of one day: no test starts in the last minute of a day.
  beforeEach(async () => {
    if (leftOfDayMs() > 60_000) return;
    await waitFor(() => leftOfDayMs() > 60_000, { what: 'the day is over', timeoutMs: 90_000 });
    await sweepPartitions(makeDeps());
  });

  it('a new partition takes over its rows from the default partition', async () => {
    const today = partitionAt(observations, Date.now());
    await fixture.pool.query(`drop table ${today.name}`);
    for (let index = 0; index < 5; index += 1) await insertObservation('clock_timestamp()', index);
    expect(await countOf('observations_default')).toBe(5);
    const deps = makeDeps();
    await watchDefaultPartitions(deps);
    expect(await keyMetrics(deps.metrics.defaultPartitionRows)).toContainEqual({
      table: 'observations',
      value: 5,
    });
    await sweepPartitions(deps);
    expect(await partitionsOf('observations')).toContain(today.name);
    expect(await countOf('observations_default')).toBe(0);
    expect(await countOf('observations')).toBe(5);
    await watchDefaultPartitions(deps);
    expect(await keyMetrics(deps.metrics.defaultPartitionRows)).toContainEqual({
      table: 'observations',
      value: 0,
    });
  });

  it('partitions are dropped 30 days (observations) and 400 days (buckets) after their end, and not before', async () => {
    const connection = await fixture.pool.connect();
    const ago = (days: number) => Date.now() - days * DAY_MS;
    const old = [32, 31, 30, 29].map((days) => partitionAt(observations, ago(days)));
    const months = [465, 370].map((days) => partitionAt(buckets, ago(days)));
    try {
      for (const [table, partitions] of [
        ['observations', old],
        ['observation_buckets', months],
      ] as const) {
        for (const { name, fromMs, toMs } of partitions) {
          await connection.query(
            `create table ${name} partition of ${table} for values from ('${toTime(fromMs)}') to ('${toTime(toMs)}')`,
          );
        }
      }
      // This is the state that a crash between the two steps leaves.
      await connection.query(`alter table observations detach partition ${old[0]?.name}`);
      const dropped = { names: [old[0]?.name, old[1]?.name], failures: [] };
      expect(await dropPartitions(connection, observations)).toEqual(dropped);
      expect(await dropPartitions(connection, buckets)).toEqual({ names: [months[0]?.name], failures: [] });
      expect(await partitionsOf('observations')).toEqual(
        expect.arrayContaining(old.slice(2).map(({ name }) => name)),
      );
      expect(await createPartitions(connection, observations)).toEqual({ names: [], failures: [] });
    } finally {
      connection.release();
    }
  });

  it('partitions that several replicas create at once are created once', async () => {
    const last = partitionAt(observations, Date.now(), 7);
    const make = async () => {
      const connection = await fixture.pool.connect();
      try {
        return await createPartitions(connection, observations);
      } finally {
        connection.release();
      }
    };
    for (let time = 0; time < 20; time += 1) {
      await fixture.pool.query(`drop table ${last.name}`);
      const created = await Promise.all([make(), make(), make()]);
      expect(created.flatMap(({ names }) => names)).toEqual([last.name]);
      expect(created.flatMap(({ failures }) => failures)).toEqual([]);
    }
  });

  it('a sweep of partitions deletes old rows from the default partition and counts them by table', async () => {
    await insertObservation(`clock_timestamp() - interval '40 days'`);
    await insertObservation(`clock_timestamp() + interval '40 days'`);
    const deps = makeDeps();
    await sweepPartitions(deps);
    expect(await countOf('observations_default')).toBe(1);
    expect(await keyMetrics(deps.metrics.rowsRetired)).toContainEqual({
      what: 'observations_default',
      value: 1,
    });
    await fixture.pool.query('delete from observations_default');
  });

  it('the partitions of December and January follow one another', () => {
    const lastMs = Date.UTC(2027, 0) - 1;
    const december = partitionAt(buckets, lastMs);
    expect(december.name).toBe('observation_buckets_202612');
    expect(partitionAt(buckets, lastMs, 1)).toEqual({
      name: 'observation_buckets_202701',
      fromMs: december.toMs,
      toMs: Date.UTC(2027, 1),
    });
    expect(partitionAt(observations, Date.UTC(2028, 1, 28, 12), 1).name).toBe('observations_20280229');
  });
});

describe('retention', () => {
  it('retention deletes the rows whose time is over, in batches, and nothing else', async () => {
    const { pool, project } = fixture;
    const { projectId } = project;
    const count = 1_200;
    await pool.query(
      `insert into idempotency_records (scope_id, key, fingerprint, status, created_at)
       select $1::uuid, 'old-' || n, ''::bytea, 200, now() - interval '25 hours' from generate_series(1, ${count}) n
       union all select $1, 'new', ''::bytea, 200, now() - interval '23 hours'`,
      [projectId],
    );
    await pool.query(
      `insert into beat_keys (project_id, monitor_key, key, answer, expires_at)
       values ($1, $2, 'old', '{}', now() - interval '1 second'), ($1, $2, 'new', '{}', now() + interval '1 hour')`,
      [projectId, randomUUID()],
    );
    await pool.query(
      `insert into publish_addresses (address, project_id, monitor_key, ends_at)
       values (gen_random_uuid(), $1, $2, now() - interval '1 second'),
         (gen_random_uuid(), $1, $2, now() + interval '1 hour')`,
      [projectId, randomUUID()],
    );
    await pool.query(
      `insert into ingest_lanes (lane_id, last_batch, updated_at)
       values (gen_random_uuid(), 1, now() - interval '31 days'), ('11111111-1111-4111-8111-111111111111', 1, now())`,
    );
    await pool.query('insert into service_outages (from_ms, to_ms) values (0, 5000), ($1, $2)', [
      Date.now() - 20_000,
      Date.now() - 10_000,
    ]);
    await pool.query(
      `insert into endpoint_changes (project_id, endpoint_id, change_number, generation, kind, action, details, actor,
         occurred_at, expires_at)
       select $1, endpoint, 1, 1, 'configuration', 'create', '{}', '{}', now() - interval '400 days', expires_at
       from (values ('cb_lives', null::timestamptz), ('cb_removed', now() + interval '1 hour'),
         ('cb_gone', now() - interval '1 second')) as v (endpoint, expires_at)`,
      [projectId],
    );
    for (const [id, days] of [
      ['old', 31],
      ['new', 29],
    ] as const) {
      const at = `now() - interval '${days} days'`;
      await pool.query(
        `insert into credentials (project_id, credential_id, name, preset, digest, revoked_at) values ($1, '${id}', 'x', 'read', '', ${at})`,
        [projectId],
      );
      await pool.query(`insert into credential_addresses (credential_id, project_id) values ('${id}', $1)`, [
        projectId,
      ]);
      for (const [incident, deletedAt] of [
        [`inc_deleted_${id}`, at],
        [`inc_kept_${id}`, 'null'],
      ]) {
        await pool.query(
          `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
             opened_at, summary, monitor_deleted_at)
           values ($1, '${incident}', $2, 'm', 'unrestricted', 'missed_deadline', 'resolved', 'critical', now(), 's', ${deletedAt})`,
          [projectId, randomUUID()],
        );
        await pool.query(
          `insert into timeline_entries (project_id, incident_id, entry_id, at, type) values ($1, '${incident}', $2, now(), 'note')`,
          [projectId, newUuid()],
        );
        await pool.query(
          `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, state,
             webhook_id, body, created_at, ended_at)
           values ($1, 'dlv_${incident}', 'cb', $1, '${incident}', 'incident.opened', 'delivered', 'msg', '{}', ${at}, ${at})`,
          [projectId],
        );
        await pool.query(
          `insert into delivery_attempts (project_id, delivery_id, attempt, at) values ($1, 'dlv_${incident}', 2, ${at})`,
          [projectId],
        );
      }
    }
    const before = await countOf('publish_addresses');
    const deps = makeDeps();
    await drain({ run: () => sweepRetention(deps) });

    expect(await countOf('idempotency_records')).toBe(1);
    expect(await countOf('beat_keys')).toBe(1);
    expect(await countOf('publish_addresses')).toBe(before - 1);
    expect(await countOf('ingest_lanes', `lane_id = '11111111-1111-4111-8111-111111111111'`)).toBe(1);
    expect(await countOf('ingest_lanes', `updated_at < now() - interval '30 days'`)).toBe(0);
    expect(await countOf('service_outages')).toBe(1);
    expect(await countOf('credentials', `credential_id in ('old', 'new')`)).toBe(1);
    expect(await countOf('credential_addresses', `credential_id in ('old', 'new')`)).toBe(1);
    const { rows } = await pool.query('select incident_id from incidents order by 1');
    const kept = ['inc_deleted_new', 'inc_kept_new', 'inc_kept_old'];
    expect(rows.map((row) => row.incident_id)).toEqual(kept);
    expect(await countOf('timeline_entries')).toBe(3);
    // A delivery of a kept incident is deleted 30 days after its end.
    expect(await countOf('deliveries')).toBe(2);
    expect(await countOf('delivery_attempts')).toBe(2);
    expect(await countOf('endpoint_changes', "endpoint_id = 'cb_gone'")).toBe(0);
    expect(await countOf('endpoint_changes')).toBe(2);
    expect(await keyMetrics(deps.metrics.rowsRetired)).toContainEqual({
      what: 'idempotency_records',
      value: count,
    });
  });
});

describe('archived monitors', () => {
  it('an archived monitor is deleted, as a delete does, when its time to be restored is over', async () => {
    const { pool, project } = fixture;
    const archived = (interval: string) => ({
      configuration: {
        lifecycle: 'archived',
        restorable_until: new Date(Date.now() + (interval === 'over' ? -1_000 : 3_600_000)),
      },
    });
    const over = await seedMonitor(pool, project, archived('over'));
    const waiting = await seedMonitor(pool, project, archived('waiting'));
    const endpoint = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
    await pool.query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, monitor_key, event, webhook_id,
         body, created_at, next_attempt_at)
       values ($1, 'dlv_archived', $2, $1, $3, 'incident.resolved', 'msg', '{}', now(), now())`,
      [project.projectId, endpoint.endpointId, over.monitorKey],
    );
    await sweepRestoreWindows(makeDeps());
    await cancelAll(pool);
    const left = (monitor: { monitorKey: string }) =>
      Promise.all(
        ['monitors', 'monitor_live', 'publish_addresses'].map((table) =>
          countOf(table, `monitor_key = '${monitor.monitorKey}'`),
        ),
      );
    expect(await left(over)).toEqual([0, 0, 0]);
    expect(await left(waiting)).toEqual([1, 1, 1]);
    expect(await countOf('deliveries', `delivery_id = 'dlv_archived' and state = 'canceled'`)).toBe(1);
  });
});

describe('archived monitors with inline bindings', () => {
  it('the inline endpoint that goes with an archived monitor has an audit line, by Beatkeeper itself', async () => {
    const { pool, project } = fixture;
    const { projectId } = project;
    const { endpointId } = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
    const { monitorId, monitorKey } = await seedMonitor(pool, project, {
      configuration: {
        lifecycle: 'archived',
        restorable_until: new Date(Date.now() - 1_000),
        binding_kind: 'inline',
        inline_endpoint_id: endpointId,
      },
    });
    await pool.query('update callback_endpoints set monitor_key = $2 where endpoint_id = $1', [
      endpointId,
      monitorKey,
    ]);
    const lines: string[] = [];
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(line) },
    );
    await sweepRestoreWindows({ ...makeDeps(), log });
    await sweepRestoreWindows({ ...makeDeps(), log });
    expect(lines.flatMap((line) => JSON.parse(line).audit ?? [])).toEqual([
      {
        actor: { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' },
        action: 'binding.remove',
        object: { kind: 'monitor', id: monitorId, projectId, jurisdiction: 'unrestricted', endpointId },
      },
    ]);
  });
});

describe('leases', () => {
  it('a lease has one holder at a time, and another replica can take it when it ends', async () => {
    const { pool } = fixture;
    const [one, other] = [randomUUID(), randomUUID()];
    const lease = { name: 'test', leaseMs: 60_000, everyMs: 0 };
    expect(await claimLease(pool, { ...lease, owner: one })).toBe(true);
    expect(await claimLease(pool, { ...lease, owner: other })).toBe(false);
    await pool.query(`update sweeper_leases set until_at = now() where name = 'test'`);
    expect(await claimLease(pool, { ...lease, owner: other })).toBe(true);
    expect(await renewLease(pool, { ...lease, owner: one })).toBe(false);
    await releaseLease(pool, { name: 'test', owner: one }, true);
    expect(await renewLease(pool, { ...lease, owner: other })).toBe(true);
  });

  it('a leased job runs again only when it is due, or when its last run did not finish', async () => {
    let steps = 0;
    const run = (step: () => Promise<'more' | 'idle'>) =>
      runUnderLease({ name: 'job', everyMs: 60_000, step }, makeDeps(), {
        owner: randomUUID(),
        signal: new AbortController().signal,
      });
    const fails = () => Promise.reject(new Error('the step failed'));
    await expect(run(fails)).rejects.toThrow('the step failed');
    const works = () => {
      steps += 1;
      return Promise.resolve(steps < 3 ? ('more' as const) : ('idle' as const));
    };
    await Promise.all([run(works), run(works), run(works)]);
    await run(works);
    expect(steps).toBe(3);
  });

  it('a lease is renewed while a step takes longer than it lasts', async () => {
    const step = async () => {
      const untilMs = await readUntil();
      await waitFor(async () => (await readUntil()) > untilMs, { what: 'the renewal' });
      return 'idle' as const;
    };
    const readUntil = async () => {
      const { rows } = await fixture.pool.query<{ until_at: Date }>(
        `select until_at from sweeper_leases where name = 'long'`,
      );
      return rows[0]?.until_at.getTime() ?? 0;
    };
    await runUnderLease({ name: 'long', everyMs: 60_000, step }, makeDeps(), {
      owner: randomUUID(),
      signal: new AbortController().signal,
      leaseMs: 400,
    });
  });
});

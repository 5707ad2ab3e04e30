// A transaction of a Citus cluster as the death of its coordinator leaves it: committed there, and prepared at the machine
// that has its rows.
import pg from 'pg';
import { inject } from 'vitest';
import type { MonitorRef } from '../../src/store/monitors/live.ts';
import { databaseUrlOf } from './distributed-database.ts';
import { waitFor } from './wait-for.ts';

export interface HeldCommit {
  /** Of the coordinator. */
  xid: number;
  /** As the recovery of the coordinator does. */
  commit(): Promise<void>;
}

interface Place {
  port: number;
  group_id: number;
  live: string;
  changes: string;
}

/** Changes the live row of a monitor. Call `commit` before the database is dropped. */
export async function holdCommit(
  databaseUrl: string,
  { projectId, monitorKey }: MonitorRef,
): Promise<HeldCommit> {
  const coordinator = await connect(databaseUrl);
  // It keeps the recovery, which runs each minute, from ending the commit.
  const guard = await connect(databaseUrl);
  const { rows } = await coordinator.query<Place>(
    `select n.nodeport as port, n.groupid as group_id, 'monitor_live_' || p.shardid as live,
       'live_changes_' || get_shard_id_for_distribution_column('live_changes', $1::uuid) as changes
     from pg_dist_placement p join pg_dist_node n on n.groupid = p.groupid
     where p.shardid = get_shard_id_for_distribution_column('monitor_live', $1::uuid)`,
    [projectId],
  );
  const [place] = rows;
  const server = (inject('postgresWorkerUrls') ?? []).find(
    (url) => new URL(url).port === String(place?.port),
  );
  if (!place || !server) throw new Error('The shard of the project is on no worker.');
  const machine = await connect(databaseUrlOf(server, new URL(databaseUrl).pathname.slice(1)));

  await coordinator.query('begin');
  const { rows: begun } = await coordinator.query<{ xid: string }>(
    'select pg_current_xact_id()::text as xid',
  );
  const xid = begun[0]?.xid ?? '';
  const gid = `citus_0_${xid}_1_1`;
  await coordinator.query('insert into pg_dist_transaction (groupid, gid) values ($1, $2)', [
    place.group_id,
    gid,
  ]);
  await machine.query('begin');
  await machine.query(
    `update ${place.live} set changed_xid = $1 where project_id = $2 and monitor_key = $3`,
    [xid, projectId, monitorKey],
  );
  await machine.query(
    `insert into ${place.changes} (changed_xid, shard_key, project_hashes, monitor_keys)
     values ($1, $2, array[uuid_hash($2::uuid)], array[$3::uuid])`,
    [xid, projectId, monitorKey],
  );
  await machine.query(`prepare transaction '${gid}'`);
  await guard.query('begin');
  const guarded = guard.query('lock table pg_dist_transaction in share mode');
  await waitFor(
    async () => {
      const { rows: waiting } = await coordinator.query(
        `select from pg_locks where relation = 'pg_dist_transaction'::regclass and not granted`,
      );
      return waiting.length > 0;
    },
    { what: 'the guard waits for the lock' },
  );
  await coordinator.query('commit');
  await guarded;
  return {
    xid: Number(xid),
    async commit() {
      await machine.query(`commit prepared '${gid}'`);
      await guard.query('rollback');
      await Promise.all([coordinator, guard, machine].map((client) => client.end()));
    },
  };
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  return client;
}

// In which shard of a Citus cluster the rows of a project are. A split of a shard makes what was read before wrong: the
// statements of a batch that spans two shards are refused (`isOfManyShards`), and it is done again one project at a time.
import { newUuid } from '../../domain/id.ts';
import { isDistributed } from './engine.ts';
import type { Queryable } from './pool.ts';

/** The shard of each project; of none on Postgres. */
export async function readShards(db: Queryable, projectIds: readonly string[]): Promise<Map<string, number>> {
  if (!isDistributed() || projectIds.length === 0) return new Map();
  const { rows } = await db.query<{ project_id: string; shard: number }>({
    name: 'read-shards',
    text: `select v.project_id, get_shard_id_for_distribution_column('monitor_live', v.project_id) as shard
      from unnest($1::uuid[]) as v (project_id)`,
    values: [[...new Set(projectIds)]],
  });
  return new Map(rows.map(({ project_id: projectId, shard }) => [projectId, shard]));
}

/** The rows of each shard; all of them together on Postgres, which has none and is not asked. */
export async function groupByShard<Row extends { projectId: string }>(
  db: Queryable,
  rows: readonly Row[],
): Promise<(readonly Row[])[]> {
  if (!isDistributed()) return [rows];
  const shards = await readShards(
    db,
    rows.map(({ projectId }) => projectId),
  );
  return [...Map.groupBy(rows, ({ projectId }) => shards.get(projectId)).values()];
}

/** On Citus: each `set local` that follows holds at every machine that the transaction reads. */
export const SET_EVERYWHERE = "set local citus.propagate_set_commands = 'local'";

/** On Citus: the longest wait for a lock of the statements that follow in the transaction, at each machine; 0 is no limit. */
export async function limitLockWait(tx: Queryable, ms: number): Promise<void> {
  await tx.query(SET_EVERYWHERE);
  await tx.query(`set local lock_timeout = ${ms}`);
}

/** Many: a shard has one of a few hundred keys. */
const TRIES = 100_000;

/**
 * A new random key whose row is in the shard, in the table of lanes as in each other one. A shard that a split has left
 * with a few keys, or none, has no such key: the row is elsewhere then, and what is written together with it commits in
 * two phases.
 */
export async function newKeyInShard(db: Queryable, shard: number): Promise<string> {
  const { rows } = await db.query<{ key: string }>(
    `select key from (select gen_random_uuid() as key from generate_series(1, ${TRIES})) keys
     where get_shard_id_for_distribution_column('monitor_live', key) = $1 limit 1`,
    [shard],
  );
  return rows[0]?.key ?? newUuid();
}

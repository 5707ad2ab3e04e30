// Commits in two phases, of Citus: the machines prepare their parts, then the coordinator commits, then the machines do. In
// between, a snapshot of the coordinator has a transaction whose rows nobody can read yet. If the coordinator dies, that lasts
// until it is back and has asked its machines (citus.recover_2pc_interval).
import type { Queryable } from './pool.ts';

/** SQLSTATE connection_failure: the database is away for a moment. */
export class MachineAway extends Error {
  readonly code = '08006';
}

const PREPARED = `select coalesce(json_agg(gid), '[]')::text from pg_prepared_xacts where database = current_database()`;
const PREPARED_ANYWHERE = `select success, result from run_command_on_workers($prepared$${PREPARED}$prepared$)
  union all select true, (${PREPARED})`;

/**
 * The transactions before `xmax`, as in a snapshot of the coordinator, that have ended there and are not visible at some
 * machine yet: `xmax` is of a snapshot that was read before. What is prepared later is committed later, and is not in that
 * snapshot. Throws MachineAway where a machine does not answer.
 */
export async function findUnfinishedCommits(db: Queryable, xmax: number): Promise<number[]> {
  const { rows } = await db.query<{ success: boolean; result: string }>(PREPARED_ANYWHERE);
  const silent = rows.find(({ success }) => !success);
  if (silent) throw new MachineAway(`A machine of the cluster does not answer: ${silent.result}`);
  const prepared = rows.flatMap(({ result }) => JSON.parse(result) as string[]);
  if (prepared.length === 0) return [];
  // The coordinator notes what it commits in the same transaction. Without a note a part is of one that still runs, or of
  // one that was rolled back.
  const noted = await db.query<{ xid: string }>(
    'select distinct xmin::text as xid from pg_dist_transaction where gid = any($1::text[])',
    [prepared],
  );
  return noted.rows.map(({ xid }) => fullId(Number(xid), xmax)).filter((xid) => xid < xmax);
}

/** Rows have the low 32 bits of their transaction's id. It is less than half of that range away from `xmax`. */
function fullId(low: number, xmax: number): number {
  const distance = (((low - xmax) % 2 ** 32) + 2 ** 32) % 2 ** 32;
  return xmax + (distance < 2 ** 31 ? distance : distance - 2 ** 32);
}

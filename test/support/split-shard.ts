// Projects of one shard, and the split of it, on a Citus cluster.
import { isDistributed } from '../../src/store/postgres/engine.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { readShards } from '../../src/store/postgres/shards.ts';
import { type SeedProject, seedProject } from './seed.ts';

/** Makes projects until two of them are in one shard. */
export async function seedNeighbours(pool: Pool): Promise<[SeedProject, SeedProject]> {
  if (!isDistributed()) throw new Error('The database has no shards.');
  const seeded = new Map<number | undefined, SeedProject>();
  for (;;) {
    const project = await seedProject(pool);
    const shard = (await readShards(pool, [project.projectId])).get(project.projectId);
    const neighbour = seeded.get(shard);
    if (neighbour) return [neighbour, project];
    seeded.set(shard, project);
  }
}

/** Gives the project a shard of its own. */
export async function splitShard(pool: Pool, { projectId }: Pick<SeedProject, 'projectId'>): Promise<void> {
  await pool.query(
    `select isolate_tenant_to_new_shard('monitor_live', $1::uuid, 'CASCADE', shard_transfer_mode => 'block_writes')`,
    [projectId],
  );
}

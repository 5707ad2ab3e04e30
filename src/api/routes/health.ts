// /livez, /readyz, /metrics. A process is live while it answers. It is ready while the database has the schema of this
// build and the process is not about to end.
import type { FastifyInstance } from 'fastify';
import { listMigrations, readSchemaVersion } from '../../store/postgres/migrate.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';

export function registerHealth(app: FastifyInstance, { readiness, registry }: Telemetry): void {
  app.get('/livez', async (_request, reply) => reply.type('text/plain; charset=utf-8').send('ok\n'));
  app.get('/readyz', async (_request, reply) => {
    const faults = Object.entries(await readiness.findFaults());
    const words = faults.map(([name, fault]) => `${name}: ${fault}\n`).join('');
    reply.code(faults.length === 0 ? 200 : 503).type('text/plain; charset=utf-8');
    return reply.send(words || 'ok\n');
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  );
}

/** Why the database cannot serve this build: its schema is older, or it may lose commits. Rejects when it is away. */
export async function findDatabaseFault(pool: Pool): Promise<string | undefined> {
  const needed = (await listMigrations()).length;
  const found = await readSchemaVersion(pool);
  if (found < needed)
    return `The database has schema version ${found}, but this build needs ${needed}: run the role migrate.`;
  return await findDurabilityFault(pool);
}

/** Why an answered beat could be lost (docs/contract/beats.md); undefined where every commit is durable. */
export async function findDurabilityFault(pool: Pool): Promise<string | undefined> {
  const { rows } = await pool.query<{ setting: string }>(
    "select current_setting('synchronous_commit') as setting",
  );
  if (rows[0]?.setting !== 'off') return undefined;
  return 'The database has synchronous_commit = off, so an acknowledged beat could be lost: set it to on for the database or the user of DATABASE_URL.';
}

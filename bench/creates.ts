// Monitors that POST /v1/monitors makes in a second, for as many callers as an operator has. The same run measures what
// limits them: each creation changes and commits one row, the organization's count of monitors.
import { randomUUID } from 'node:crypto';
import { Pool as UndiciPool } from 'undici';
import { takeMonitorSlot } from '../src/store/monitors/monitors.ts';
import { openPool } from '../src/store/postgres/pool.ts';
import { seedCredential, seedProject } from '../test/support/seed.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { median, noiseOf, printRatios, ratiosTo } from './table.ts';

const CALLERS = 8;
const GOAL_A_SECOND = 200;
/** More monitors than a run can make. */
const LIMIT = 1_000_000_000;

export interface CreatesOptions {
  pairs: number;
  seconds: number;
}

export async function measureCreates(
  environment: Environment,
  { pairs, seconds }: CreatesOptions,
): Promise<void> {
  const { databaseUrl } = environment;
  const pool = openPool({ databaseUrl, size: CALLERS, applicationName: 'bench', statementTimeoutMs: 60_000 });
  const { projectId } = await seedProject(pool);
  // The row of another organization, which no plan limits.
  const { organizationId } = await seedProject(pool);
  const authorization = `Bearer ${await seedCredential(pool, { projectId, preset: 'manage' })}`;
  const port = await environment.startServer('api-server.ts', []);
  const client = new UndiciPool(`http://127.0.0.1:${port}`, { connections: CALLERS });
  const create = () => createMonitor(client, authorization);
  const count = () => takeMonitorSlot(pool, organizationId, LIMIT);
  await perSecond(create, 1);
  const figures = { creates: [] as number[], counts: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.counts.push(await perSecond(count, seconds));
    figures.creates.push(await perSecond(create, seconds));
  }
  printRatios(`POST /v1/monitors, ${CALLERS} callers`, [
    {
      name: `created a second / ${GOAL_A_SECOND}`,
      values: figures.creates.map((value) => value / GOAL_A_SECOND),
      goal: '>= 1',
    },
    {
      name: 'created / changes of that row, each in its own transaction',
      values: ratiosTo(figures.counts, figures.creates),
    },
  ]);
  console.log(
    `\nMedians: ${median(figures.creates).toFixed(0)} created a second, ${median(figures.counts).toFixed(0)} changes of the row (noise ${noiseOf(figures.counts)}).`,
  );
  await client.close();
  await pool.end();
}

async function perSecond(work: () => Promise<unknown>, seconds: number): Promise<number> {
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1_000;
  let done = 0;
  const call = async () => {
    for (; performance.now() < endsAt; done += 1) await work();
  };
  await Promise.all(Array.from({ length: CALLERS }, call));
  return (done / (performance.now() - startedAt)) * 1_000;
}

async function createMonitor(client: UndiciPool, authorization: string): Promise<void> {
  const name = `mon-${randomUUID()}`;
  const { statusCode, body } = await client.request({
    method: 'POST',
    path: '/v1/monitors',
    headers: { authorization, 'content-type': 'application/json', 'idempotency-key': randomUUID() },
    body: JSON.stringify({ monitorId: name, name, intervalSeconds: 300, labels: { app: 'billing' } }),
  });
  const answer = await body.text();
  if (statusCode === 503) throw new VoidMeasurement('The api did not make a monitor in time.');
  if (statusCode !== 201) throw new Error(`The api did not make a monitor: ${statusCode} ${answer}`);
}

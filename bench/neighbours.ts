// What one project with very many endpoints that hang does to the alerts of another one: in receivers that never answer,
// in DNS that never answers, and with one sweeper and two.
import { createSocket } from 'node:dgram';
import { setTimeout as delay } from 'node:timers/promises';
import { parseAllowedDestinations } from '../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../src/delivery/webhook/name-resolver.ts';
import { insertDeliveries } from '../src/store/deliveries/deliveries.ts';
import type { Pool } from '../src/store/postgres/pool.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import type { Dispatcher } from '../src/sweeper/deliveries/dispatcher.ts';
import { type SeedEndpoint, seedEndpoint, seedProject } from '../test/support/seed.ts';
import { makeDelivery, startDispatcher } from '../test/support/sweeper-fixture.ts';
import { type BenchFixture, BODY, openBenchFixture, seedEndpoints } from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { printRatios } from './table.ts';

const HANGING = 1_100;
/** Waiting deliveries of each endpoint that hangs. */
const EACH = 3;
const ALERTS = 200;
const EVERY_MS = 100;
/** The 99th percentile of an alert, from the event to the receiver. */
const GOAL_MS = 500;

export async function measureNeighbours(
  environment: Environment,
  { pairs }: { pairs: number },
): Promise<void> {
  const own = await openBenchFixture(environment.databaseUrl);
  const { pool } = own;
  const port = await environment.startServer('receiver.ts', []);
  const endpoint = await seedEndpoint(own, `http://127.0.0.1:${port}/fast`);
  const dns = await startSilentDns();
  const urls = { receivers: `http://127.0.0.1:${port}/hang`, DNS: `http://silent.test:${port}/` };
  const ratios: { name: string; values: number[]; goal: string }[] = [];
  for (const [what, url] of Object.entries(urls)) {
    const other = { ...own, project: await seedProject(pool) };
    const hanging = await seedEndpoints(other, url, HANGING);
    for (const sweepers of [1, 2]) {
      const values: number[] = [];
      for (let pair = 0; pair < pairs; pair += 1) {
        await fillOutbox(other, hanging);
        const dispatchers = Array.from({ length: sweepers }, () => startDispatcher(own, dns.options));
        const { p50, p99 } = await alertSteadily(own, endpoint, dispatchers);
        console.log(`${what}, ${sweepers} sweepers: p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`);
        values.push(p99 / GOAL_MS);
        await Promise.all(dispatchers.map((dispatcher) => dispatcher.stop()));
      }
      const name = `${what} of ${HANGING} endpoints hang, ${sweepers === 1 ? 'one sweeper' : `${sweepers} sweepers`}: ms / ${GOAL_MS}`;
      ratios.push({ name, values, goal: '<= 1' });
    }
  }
  printRatios(
    "From the event to the receiver, beside another project's endpoints that hang, 99th percentile",
    ratios,
  );
  dns.close();
  await pool.end();
}

/** A DNS server that never answers, and the options of a dispatcher that asks it. */
async function startSilentDns() {
  const socket = createSocket('udp4');
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  const servers = [`127.0.0.1:${socket.address().port}`];
  const resolver = createNameResolver({ servers, searchDomains: [], hostsText: '' });
  const allowed = parseAllowedDestinations('127.0.0.0/8,.test');
  return { options: { destinations: { allowed, resolver } }, close: () => socket.close() };
}

async function fillOutbox({ pool, project }: BenchFixture, hanging: readonly SeedEndpoint[]): Promise<void> {
  await pool.query('truncate deliveries, delivery_attempts');
  const rows = hanging.flatMap((endpoint) =>
    Array.from({ length: EACH }, () => makeDelivery(project, endpoint, { body: BODY })),
  );
  await insertDeliveries(pool, rows, await readNow(pool));
}

async function alertSteadily(
  { pool, project }: BenchFixture,
  endpoint: SeedEndpoint,
  dispatchers: readonly Dispatcher[],
): Promise<{ p50: number; p99: number }> {
  // Every attempt that may begin now has begun.
  await delay(3_000);
  for (let alert = 0; alert < ALERTS; alert += 1) {
    await insertDeliveries(pool, [makeDelivery(project, endpoint, { body: BODY })], await readNow(pool));
    dispatchers[alert % dispatchers.length]?.wake();
    await delay(EVERY_MS);
  }
  while ((await waiting(pool, project)) > 0) await delay(50);
  const { rows } = await pool.query<{ p: number[] }>(
    `select percentile_disc(array[0.5, 0.99]) within group (order by
       extract(epoch from delivered_at - created_at)::float8 * 1000) as p
     from deliveries where project_id = $1`,
    [project.projectId],
  );
  const [p50 = Number.NaN, p99 = Number.NaN] = rows[0]?.p ?? [];
  return { p50, p99 };
}

async function waiting(pool: Pool, { projectId }: { projectId: string }): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from deliveries where project_id = $1 and state in ('pending', 'failing')`,
    [projectId],
  );
  return rows[0]?.count ?? 0;
}

// Alerts in a steady state: how late the sweeper finds a missed deadline, how long the message takes to the receiver, and
// how much receivers that hang delay the messages to others.
import { setTimeout as delay } from 'node:timers/promises';
import { insertDeliveries } from '../src/store/deliveries/deliveries.ts';
import type { Pool } from '../src/store/postgres/pool.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import { Loop } from '../src/sweeper/loop.ts';
import { dueAt, type SeedEndpoint, seedEndpoint, seedMonitors } from '../test/support/seed.ts';
import { makeDelivery, makeSweep, moveClock } from '../test/support/sweeper-fixture.ts';
import {
  type BenchFixture,
  BODY,
  openBenchFixture,
  seedEndpoints,
  startCountedDispatcher,
} from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { printRatios } from './table.ts';

const SECONDS = 5;
/** Missed deadlines, or deliveries, per second. */
const RATE = 100;
const STEPS = 20;
const LEAD_MS = 3_000;
const ENDPOINTS = 50;
const HANGING = 5;
const LATENESS_GOAL_MS = 1_250;
const LATENCY_GOAL_MS = 250;

export async function measureAlerts(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const fixture = await openBenchFixture(environment.databaseUrl);
  const port = await environment.startServer('receiver.ts', []);
  const urlOf = (path: string) => `http://127.0.0.1:${port}/${path}`;
  await seedEndpoint(fixture, urlOf('fast'), true);
  const healthy = await seedEndpoints(fixture, urlOf('fast'), ENDPOINTS);
  const hanging = await seedEndpoints(fixture, urlOf('hang'), HANGING);
  const figures = {
    lateness: [] as number[],
    latency: [] as number[],
    hanging: [] as number[],
    again: [] as number[],
  };
  for (let pair = 0; pair < pairs; pair += 1) {
    const { latenessMs, latencyMs } = await missDeadlines(fixture);
    figures.lateness.push(latenessMs / LATENESS_GOAL_MS);
    figures.latency.push(latencyMs / LATENCY_GOAL_MS);
    const alone = await deliverSteadily(fixture, healthy, []);
    const beside = await deliverSteadily(fixture, healthy, hanging);
    figures.hanging.push(beside / alone);
    figures.again.push((await deliverSteadily(fixture, healthy, [])) / alone);
  }
  printRatios(`${RATE} missed deadlines a second, 99th percentiles`, [
    {
      name: `from the deadline to its incident, ms / ${LATENESS_GOAL_MS}`,
      values: figures.lateness,
      goal: '<= 1',
    },
    {
      name: `from the event to the receiver, ms / ${LATENCY_GOAL_MS}`,
      values: figures.latency,
      goal: '<= 1',
    },
    {
      name: `from the event to the receiver, ${HANGING} more endpoints hang / none hangs`,
      values: figures.hanging,
      goal: '<= 1.1',
    },
    { name: 'from the event to the receiver, none hangs / none hangs, run again', values: figures.again },
  ]);
  await fixture.pool.end();
}

/** Lets deadlines pass over some seconds, with a sweep and the service clock as in production. */
async function missDeadlines(fixture: BenchFixture): Promise<{ latenessMs: number; latencyMs: number }> {
  const { pool, project } = fixture;
  await pool.query(
    'truncate incidents, deliveries, delivery_attempts, monitors, monitor_live, service_clock',
  );
  await moveClock(pool);
  const clock = setInterval(() => moveClock(pool).catch(console.error), 1_000);
  const firstMs = (await readNow(pool)) + LEAD_MS;
  for (let step = 0; step < SECONDS * STEPS; step += 1) {
    const dueMs = firstMs + step * (1_000 / STEPS);
    await seedMonitors(pool, project, RATE / STEPS, dueAt(dueMs));
  }
  const { dispatcher, delivered } = startCountedDispatcher(fixture);
  const sweep = makeSweep(pool, { onTransitions: () => dispatcher.wake() });
  const loop = new Loop({
    intervalMs: 200,
    run: () => sweep.run(),
    onError: (error) => console.error(error),
  });
  while ((await delivered()) < SECONDS * RATE) await delay(20);
  clearInterval(clock);
  await loop.stop();
  await dispatcher.stop();
  const latenessMs = await percentile(pool, 'opened_at - deadline_at', 'from incidents');
  return { latenessMs, latencyMs: await percentile(pool, 'delivered_at - created_at', 'from deliveries') };
}

/** The 99th percentile from the event to the receiver's answer, in ms, of the endpoints that answer. */
async function deliverSteadily(
  fixture: BenchFixture,
  healthy: readonly SeedEndpoint[],
  hanging: readonly SeedEndpoint[],
): Promise<number> {
  const { pool, project } = fixture;
  await pool.query('truncate deliveries, delivery_attempts');
  const { dispatcher, delivered } = startCountedDispatcher(fixture);
  const endpoints = [...healthy, ...hanging];
  const count = SECONDS * RATE;
  for (let sent = 0; sent < count; sent += RATE / STEPS) {
    const rows = Array.from({ length: RATE / STEPS }, (_, place) => {
      const endpoint = endpoints[(sent + place) % endpoints.length];
      return endpoint ? [makeDelivery(project, endpoint, { body: BODY })] : [];
    });
    await insertDeliveries(pool, rows.flat(), await readNow(pool));
    dispatcher.wake();
    await delay(1_000 / STEPS);
  }
  const expected = Array.from({ length: count }, (_, place) => place % endpoints.length);
  const answered = expected.filter((place) => place < healthy.length).length;
  while ((await delivered()) < answered) await delay(20);
  const p99 = await percentile(
    pool,
    'delivered_at - created_at',
    "from deliveries where state = 'delivered'",
  );
  await dispatcher.stop();
  return p99;
}

async function percentile(pool: Pool, span: string, from: string): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(
    `select percentile_disc(0.99) within group (order by extract(epoch from ${span}) * 1000)::float8 as ms ${from}`,
  );
  return rows[0]?.ms ?? Number.NaN;
}

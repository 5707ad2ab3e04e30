// Alerts in a steady state: how late a missed deadline is seen, how long its message takes to the receiver, and what
// receivers that answer notice of others that hang.
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../src/domain/id.ts';
import { insertDeliveries } from '../src/store/deliveries/outbox.ts';
import { readNow } from '../src/store/postgres/clock.ts';
import type { Pool } from '../src/store/postgres/pool.ts';
import { advanceServiceClock } from '../src/store/upkeep/service-clock.ts';
import { Loop } from '../src/sweeper/loop.ts';
import { seedMonitors } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';
import {
  addEndpoint,
  type Endpoint,
  type Installation,
  makeSweep,
  openInstallation,
  startDispatcher,
} from './installation.ts';
import { printRatios } from './table.ts';

const SECONDS = 5;
/** Deadlines, or deliveries, a second. */
const RATE = 100;
const STEPS = 20;
const LEAD_MS = 3_000;
const ENDPOINTS = 50;
const HANGING = 5;
const LATENESS_GOAL_MS = 1_250;
const LATENCY_GOAL_MS = 500;

export async function measureAlerts(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const installation = await openInstallation(environment.databaseUrl);
  const port = await environment.startServer('receiver.ts', []);
  const urlOf = (path: string) => `http://127.0.0.1:${port}/${path}`;
  await addEndpoint(installation, urlOf('fast'), true);
  const healthy = await addEndpoints(installation, urlOf('fast'), ENDPOINTS);
  const hanging = await addEndpoints(installation, urlOf('hang'), HANGING);
  const figures = { lateness: [] as number[], latency: [] as number[], hanging: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    const { latenessMs, latencyMs } = await missDeadlines(installation);
    figures.lateness.push(latenessMs / LATENESS_GOAL_MS);
    figures.latency.push(latencyMs / LATENCY_GOAL_MS);
    const alone = await deliverSteadily(installation, healthy, []);
    const beside = await deliverSteadily(installation, healthy, hanging);
    figures.hanging.push(beside / alone);
  }
  printRatios(`${RATE} missed deadlines a second, 99th percentiles`, [
    { name: `opened after the deadline, ms / ${LATENESS_GOAL_MS}`, values: figures.lateness, goal: '<= 1' },
    { name: `event to receiver, ms / ${LATENCY_GOAL_MS}`, values: figures.latency, goal: '<= 1' },
    {
      name: `event to receiver, ${HANGING} more endpoints hang / none does`,
      values: figures.hanging,
      goal: '<= 1.2',
    },
  ]);
  await installation.pool.end();
}

async function addEndpoints(installation: Installation, url: string, count: number): Promise<Endpoint[]> {
  const added: Endpoint[] = [];
  for (let place = 0; place < count; place += 1) added.push(await addEndpoint(installation, url));
  return added;
}

/** Deadlines spread over some seconds, with the sweep and the clock of an api as in production. */
async function missDeadlines(installation: Installation): Promise<{ latenessMs: number; latencyMs: number }> {
  const { pool, project } = installation;
  await pool.query(
    'truncate incidents, deliveries, delivery_attempts, monitors, monitor_live, service_clock',
  );
  await advanceServiceClock(pool);
  const clock = setInterval(() => advanceServiceClock(pool).catch(console.error), 1_000);
  const firstMs = (await readNow(pool)) + LEAD_MS;
  for (let step = 0; step < SECONDS * STEPS; step += 1) {
    const dueMs = firstMs + step * (1_000 / STEPS);
    await seedMonitors(pool, project, RATE / STEPS, {
      live: { wake_ms: dueMs, deadline_ms: dueMs, anchor_ms: dueMs - 120_000, last_beat_ms: dueMs - 120_000 },
    });
  }
  const dispatcher = startDispatcher(installation);
  const sweep = makeSweep(pool, () => dispatcher.wake());
  const loop = new Loop({
    intervalMs: 200,
    run: () => sweep.run(),
    onError: (error) => console.error(error),
  });
  while ((await dispatcher.delivered()) < SECONDS * RATE) await delay(20);
  clearInterval(clock);
  await loop.stop();
  await dispatcher.stop();
  const latenessMs = await percentile(pool, 'opened_at - deadline_at', 'from incidents');
  return { latenessMs, latencyMs: await percentile(pool, 'delivered_at - created_at', 'from deliveries') };
}

/** The 99th percentile from the event to the receiver's answer, in ms, of those that answer. */
async function deliverSteadily(
  installation: Installation,
  healthy: readonly Endpoint[],
  hanging: readonly Endpoint[],
): Promise<number> {
  const { pool } = installation;
  await pool.query('truncate deliveries, delivery_attempts');
  const dispatcher = startDispatcher(installation);
  const endpoints = [...healthy, ...hanging];
  const count = SECONDS * RATE;
  for (let sent = 0; sent < count; sent += RATE / STEPS) {
    const to = Array.from(
      { length: RATE / STEPS },
      (_, place) => endpoints[(sent + place) % endpoints.length],
    );
    await enqueue(installation, to);
    dispatcher.wake();
    await delay(1_000 / STEPS);
  }
  const expected = Array.from({ length: count }, (_, place) => place % endpoints.length);
  const answered = expected.filter((place) => place < healthy.length).length;
  while ((await dispatcher.delivered()) < answered) await delay(20);
  const p99 = await percentile(
    pool,
    'delivered_at - created_at',
    "from deliveries where state = 'delivered'",
  );
  await dispatcher.stop();
  return p99;
}

async function enqueue(
  { pool, project }: Installation,
  to: readonly (Endpoint | undefined)[],
): Promise<void> {
  const { projectId } = project;
  const rows = to.flatMap((endpoint) =>
    endpoint
      ? [
          {
            projectId,
            deliveryId: newId('dlv'),
            endpointId: endpoint.endpointId,
            endpointProjectId: projectId,
            incidentId: newId('inc'),
            event: 'incident.opened',
            sequence: 1,
            webhookId: newId('msg'),
            body: JSON.stringify({ type: 'incident.opened', data: 'x'.repeat(850) }),
          },
        ]
      : [],
  );
  await insertDeliveries(pool, rows, await readNow(pool));
}

async function percentile(pool: Pool, span: string, from: string): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(
    `select percentile_disc(0.99) within group (order by extract(epoch from ${span}) * 1000)::float8 as ms ${from}`,
  );
  return rows[0]?.ms ?? Number.NaN;
}

// A claim of deliveries while very many wait at one endpoint: on clean indexes, and while an old snapshot of another client
// keeps as many entries of deliveries that have ended. A claim is bounded by what the last full poll found.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { claimDeliveries } from '../src/store/deliveries/delivery-queue.ts';
import { findDueQueues } from '../src/store/deliveries/due-queues.ts';
import { type BenchFixture, openBenchFixture } from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const WAITING = 100_000;
const PLACES = 10;
const CLAIMS = 20;
const GOAL_MS = 10;

interface Figures {
  claims: number[];
  fullMs: number[];
  shortMs: number[];
}

export async function measureClaims(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const fixture = await openBenchFixture(environment.databaseUrl);
  const { pool } = fixture;
  await fillOutbox(fixture, 1_000_000);
  await pool.query('vacuum analyze deliveries');
  const clean = await measure(fixture, pairs);
  // Not a connection of our pools, which end transactions that are idle for long.
  const elsewhere = new pg.Client({ connectionString: environment.databaseUrl });
  await elsewhere.connect();
  await elsewhere.query('begin isolation level repeatable read');
  await elsewhere.query('select from organizations');
  await pool.query(
    `update deliveries set state = 'delivered', next_attempt_at = null, delivered_at = now(), ended_at = now()`,
  );
  await fillOutbox(fixture, 0);
  const old = await measure(fixture, pairs);
  await elsewhere.end();
  const count = WAITING.toLocaleString('en');
  printRatios(`A claim of ${PLACES} out of ${count} waiting deliveries`, [
    { name: `clean, ms / ${GOAL_MS}`, values: clean.claims.map((ms) => ms / GOAL_MS), goal: '<= 1' },
    {
      name: `${count} that have ended under an old snapshot / clean`,
      values: ratiosTo(clean.claims, old.claims),
      goal: '<= 2',
    },
  ]);
  const medians = ({ claims, fullMs, shortMs }: Figures) =>
    `claim ${median(claims).toFixed(2)} ms, full poll ${median(fullMs).toFixed(1)} ms, short poll ${median(shortMs).toFixed(1)} ms`;
  console.log(`\nMedians, clean: ${medians(clean)}. Under an old snapshot: ${medians(old)}.`);
  await pool.end();
}

/** Deliveries to one endpoint, one more each millisecond until `agoMs` before now. */
async function fillOutbox({ pool, project }: BenchFixture, agoMs: number): Promise<void> {
  await pool.query(
    `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
       webhook_id, body, next_attempt_at, created_at)
     select $1, 'dlv_' || v.id, 'cb_bench', $1, 'inc_' || v.id, 'incident.opened', 1, 'msg_' || v.id, repeat('x', 850),
       now() - ($2 + ${WAITING} - v.n) * interval '1 millisecond', now()
     from generate_series(1, ${WAITING}) s (n), lateral (select s.n, gen_random_uuid() as id) v`,
    [project.projectId, agoMs],
  );
}

async function measure({ pool, project }: BenchFixture, pairs: number): Promise<Figures> {
  const figures: Figures = { claims: [], fullMs: [], shortMs: [] };
  const { projectId } = project;
  for (let pair = 0; pair < pairs; pair += 1) {
    const { ms: fullMs, result } = await timed(() => findDueQueues(pool, { limit: 10 }));
    const { ms: shortMs } = await timed(() => findDueQueues(pool, { limit: 10, withinMs: 1_000 }));
    const endpoint = { projectId, endpointId: 'cb_bench' };
    const wanted = { projectId, endpoint, places: PLACES, sinceMs: result.due[0]?.firstMs };
    const times: number[] = [];
    for (let claim = 0; claim < CLAIMS; claim += 1)
      times.push((await timed(() => claimDeliveries(pool, randomUUID(), [wanted]))).ms);
    figures.claims.push(median(times));
    figures.fullMs.push(fullMs);
    figures.shortMs.push(shortMs);
    await pool.query(
      'update deliveries set lease_until = null, lease_owner = null where lease_owner is not null',
    );
  }
  return figures;
}

async function timed<Result>(work: () => Promise<Result>): Promise<{ ms: number; result: Result }> {
  const startedAt = performance.now();
  const result = await work();
  return { ms: performance.now() - startedAt, result };
}

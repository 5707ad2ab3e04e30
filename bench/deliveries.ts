// Deliveries from the outbox to a receiver in another process. The same run sends as many signed POSTs by undici alone,
// which reads and writes no database.
import { setTimeout as delay } from 'node:timers/promises';
import { Pool as UndiciPool } from 'undici';
import { signatureHeaders } from '../src/delivery/webhook/signature.ts';
import { newId } from '../src/domain/id.ts';
import { insertDeliveries } from '../src/store/deliveries/deliveries.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import type { SeedEndpoint } from '../test/support/seed.ts';
import { makeDelivery } from '../test/support/sweeper-fixture.ts';
import {
  type BenchFixture,
  BODY,
  openBenchFixture,
  readWalBytes,
  seedEndpoints,
  startCountedDispatcher,
} from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { type ProcessorTimes, processorTimesOf } from './processor-time.ts';
import { median, noiseOf, printRatios, ratiosTo } from './table.ts';

/** So many that the beginning, with one attempt at a time to each endpoint, counts for little. */
const DELIVERIES = 10_000;
const CONNECTIONS = 32;
const ENDPOINTS = 50;

export async function measureDeliveries(
  environment: Environment,
  { pairs }: { pairs: number },
): Promise<void> {
  const fixture = await openBenchFixture(environment.databaseUrl);
  const port = await environment.startServer('receiver.ts', []);
  const url = `http://127.0.0.1:${port}/fast`;
  const one = await seedEndpoints(fixture, url, 1);
  const many = await seedEndpoints(fixture, url, ENDPOINTS);
  await sendBare(url, one[0]);
  await sendFromOutbox(fixture, one);
  const figures = {
    bare: [] as number[],
    one: [] as number[],
    many: [] as number[],
    cpu: [] as ProcessorTimes[],
    bareCpu: [] as ProcessorTimes[],
    wal: [] as number[],
  };
  for (let pair = 0; pair < pairs; pair += 1) {
    const bareCpu = await processorTimesOf(async () => {
      figures.bare.push(await sendBare(url, one[0]));
    });
    figures.bareCpu.push(bareCpu);
    const sent = await sendFromOutbox(fixture, one);
    figures.one.push(sent.perSecond);
    figures.cpu.push(sent.cpu);
    figures.wal.push(sent.walBytes / DELIVERIES);
    figures.many.push((await sendFromOutbox(fixture, many)).perSecond);
  }
  printRatios(`${DELIVERIES.toLocaleString('en')} waiting deliveries`, [
    { name: 'one endpoint / bare signed POSTs', values: ratiosTo(figures.bare, figures.one), goal: '>= 0.6' },
    {
      name: `${ENDPOINTS} endpoints / bare signed POSTs`,
      values: ratiosTo(figures.bare, figures.many),
      goal: '>= 0.6',
    },
  ]);
  const micros = (times: readonly ProcessorTimes[], of: keyof ProcessorTimes) =>
    ((median(times.map((one) => one[of])) / DELIVERIES) * 1_000).toFixed(0);
  const perSecond = (values: number[]) => Math.round(median(values)).toLocaleString('en');
  console.log(
    `\nMedians: ${perSecond(figures.one)} a second to one endpoint, ${perSecond(figures.many)} to ${ENDPOINTS}, ${perSecond(figures.bare)} bare (noise ${noiseOf(figures.bare)}); ${median(figures.wal).toFixed(0)} bytes of write-ahead log per delivery.\nProcessor time per delivery: ${micros(figures.cpu, 'own')} µs of the sweeper, ${micros(figures.cpu, 'postgres')} of Postgres, ${micros(figures.cpu, 'others')} of the receiver; per bare POST ${micros(figures.bareCpu, 'own')} of the sender and ${micros(figures.bareCpu, 'others')} of the receiver.`,
  );
  await fixture.pool.end();
}

/** Sends DELIVERIES signed POSTs over as many connections as an endpoint gets. Returns how many it sent a second. */
async function sendBare(url: string, endpoint: SeedEndpoint | undefined): Promise<number> {
  const { origin, pathname: path } = new URL(url);
  const pool = new UndiciPool(origin, { connections: CONNECTIONS });
  const secrets = endpoint ? [endpoint.secret] : [];
  let left = DELIVERIES;
  const send = async () => {
    for (; left > 0; ) {
      left -= 1;
      const timestampSeconds = Date.now() / 1_000;
      const signature = signatureHeaders({ webhookId: newId('msg'), timestampSeconds, body: BODY, secrets });
      const headers = { 'content-type': 'application/json', ...signature };
      const answer = await pool.request({ method: 'POST', path, headers, body: BODY });
      await answer.body.dump();
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, send));
  const perSecond = (DELIVERIES / (performance.now() - startedAt)) * 1_000;
  await pool.close();
  return perSecond;
}

interface Sent {
  perSecond: number;
  cpu: ProcessorTimes;
  walBytes: number;
}

/** Measures from the start of a dispatcher until the outcome of the last delivery is committed. */
async function sendFromOutbox(fixture: BenchFixture, endpoints: readonly SeedEndpoint[]): Promise<Sent> {
  const { pool } = fixture;
  await pool.query('truncate deliveries, delivery_attempts');
  await fillOutbox(fixture, endpoints);
  await pool.query('vacuum analyze deliveries');
  const walBefore = await readWalBytes(pool);
  const startedAt = performance.now();
  let wallMs = 0;
  const cpu = await processorTimesOf(async () => {
    const { dispatcher, delivered } = startCountedDispatcher(fixture);
    while ((await delivered()) < DELIVERIES) await delay(1);
    wallMs = performance.now() - startedAt;
    await dispatcher.stop();
  });
  return {
    perSecond: (DELIVERIES / wallMs) * 1_000,
    cpu,
    walBytes: (await readWalBytes(pool)) - walBefore,
  };
}

async function fillOutbox(
  { pool, project }: BenchFixture,
  endpoints: readonly SeedEndpoint[],
): Promise<void> {
  const each = DELIVERIES / endpoints.length;
  const rows = endpoints.flatMap((endpoint) =>
    Array.from({ length: each }, () => makeDelivery(project, endpoint, { body: BODY })),
  );
  await insertDeliveries(pool, rows, await readNow(pool));
}

// The parts of a sweeper in the process of a test or a benchmark, on a database with one project.
import { Registry } from 'prom-client';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { newId } from '../../src/domain/id.ts';
import { findPlan } from '../../src/domain/plan.ts';
import type { OutboxRow } from '../../src/store/deliveries/deliveries.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { MonitorFaults } from '../../src/sweeper/deadlines/monitor-faults.ts';
import { DeadlineSweep, type DeadlineSweepOptions } from '../../src/sweeper/deadlines/sweep-deadlines.ts';
import { Dispatcher, type DispatcherOptions } from '../../src/sweeper/deliveries/dispatcher.ts';
import type { RunResult } from '../../src/sweeper/loop.ts';
import { createSweeperMetrics } from '../../src/sweeper/sweeper-metrics.ts';
import { sweepCancellations } from '../../src/sweeper/upkeep/sweep-cancellations.ts';
import { createLog } from '../../src/telemetry/log.ts';
import type { ProjectFixture } from './database-fixture.ts';
import { ENCRYPTION_KEY } from './make-config.ts';

/** A new registry of metrics, a log that TEST_LOG_LEVEL shows, and the key of the fixtures. */
export function makeParts() {
  const metrics = createSweeperMetrics(new Registry());
  const log = createLog({ role: 'test', level: process.env.TEST_LOG_LEVEL ?? 'silent' });
  return {
    findPlan,
    secrets: new SecretBox([ENCRYPTION_KEY]),
    metrics,
    log,
    faults: new MonitorFaults({ log, metrics }),
  };
}

export function makeSweep(pool: Pool, options: Partial<DeadlineSweepOptions> = {}): DeadlineSweep {
  return new DeadlineSweep({ pool, minimumIntervalMs: 60_000, ...makeParts(), ...options });
}

/** Runs a sweep until nothing is due. */
export async function drain(step: { run(): Promise<RunResult> }): Promise<void> {
  while ((await step.run()) === 'more');
}

/** Carries out every cancellation. */
export async function cancelAll(pool: Pool): Promise<void> {
  await drain({ run: () => sweepCancellations({ pool }) });
}

/** A dispatcher that may send to 127.0.0.0/8. */
export function startDispatcher(
  { pool, secrets }: Pick<ProjectFixture, 'pool' | 'secrets'>,
  options: Partial<DispatcherOptions> = {},
): Dispatcher {
  return new Dispatcher({
    ...makeParts(),
    pool,
    secrets,
    destinations: {
      allowed: parseAllowedDestinations('127.0.0.0/8'),
      resolver: createNameResolver(),
    },
    ...options,
  });
}

/** A row for `insertDeliveries`: `incident.opened` of a new incident to the endpoint, unless `more` says otherwise. */
export function makeDelivery(
  { projectId }: { projectId: string },
  { endpointId }: { endpointId: string },
  more: Partial<OutboxRow> = {},
): OutboxRow {
  const createdMs = more.createdMs ?? Date.now();
  return {
    projectId,
    deliveryId: newId('dlv', createdMs),
    createdMs,
    endpointId,
    endpointProjectId: projectId,
    incidentId: newId('inc'),
    event: 'incident.opened',
    sequence: 1,
    webhookId: newId('msg'),
    body: JSON.stringify({ type: 'incident.opened' }),
    ...more,
  };
}

/** The api of `moveClock`. */
export const CLOCK_API = { apiId: '00000000-0000-4000-8000-000000000001', address: 'test' };

/** Sets the service clock, which one api keeps, to `toMs`; without it, to the database's now. */
export async function moveClock(pool: Pool, toMs?: number): Promise<void> {
  await pool.query(
    `insert into service_clock (api_id, address, decided_ms, seen_ms)
     select $1, $2, v.ms, v.ms
     from coalesce($3, (extract(epoch from clock_timestamp()) * 1000)::bigint) as v (ms)
     on conflict (api_id) do update set decided_ms = excluded.decided_ms, seen_ms = excluded.seen_ms`,
    [CLOCK_API.apiId, CLOCK_API.address, toMs],
  );
}

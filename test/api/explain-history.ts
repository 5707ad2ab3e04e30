// A monitor whose history a test makes on a database with a clock of its own, by the parts of the product: the beat path,
// the use cases and the sweep.
import { randomUUID } from 'node:crypto';
import { applyMonitorPatch } from '../../src/contract/resources/monitor-patch.ts';
import { plainBeat } from '../../src/domain/beat-input.ts';
import type { LifecycleAction } from '../../src/domain/lifecycle.ts';
import type { MonitorConfiguration } from '../../src/domain/monitor.ts';
import { findPlan } from '../../src/domain/plan.ts';
import type { ServiceState } from '../../src/domain/problem.ts';
import { runBeatTransaction } from '../../src/ingest/beat-transaction.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import type { Caller, ServiceContext } from '../../src/service/calls/context.ts';
import { resolveIncident } from '../../src/service/incidents/incidents.ts';
import { explainMonitor } from '../../src/service/monitors/explain.ts';
import { explainItems } from '../../src/service/monitors/feed-reasons.ts';
import { changeConfiguration } from '../../src/service/monitors/monitor-configuration.ts';
import { changeLifecycle } from '../../src/service/monitors/monitor-lifecycle.ts';
import { createMonitor } from '../../src/service/monitors/monitors.ts';
import { findMonitors } from '../../src/store/monitors/monitors.ts';
import { readFeedPage } from '../../src/store/monitors/status-feed.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { insertOperator, signOperator } from '../../src/store/upkeep/operator-signs.ts';
import type { ProjectFixture } from '../support/database-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';

export type Kind = 'success' | 'fail' | 'start' | 'log';

export async function makeHistory(
  { project, secrets }: ProjectFixture,
  clock: VirtualClock,
  configuration: Partial<MonitorConfiguration>,
) {
  const { pool } = clock;
  const { projectId } = project;
  const context = { minimumIntervalSeconds: 60, secrets, findPlan } as ServiceContext;
  const caller: Caller = {
    actor: { kind: 'session', id: 'ada', display: 'Ada' },
    organizationId: project.organizationId,
    projectId,
    mayManage: true,
    isOperator: false,
    requestId: 'req_test',
  };
  const name = { projectId, monitorId: `m-${randomUUID()}` };
  await inTransaction(pool, async (tx) => {
    const last: ((tx: never) => Promise<void>)[] = [];
    await createMonitor(tx, context, caller, {
      input: {
        monitorId: name.monitorId,
        jurisdiction: 'unrestricted',
        binding: { kind: 'disabled' },
        configuration: {
          name: 'Job',
          labels: {},
          graceSeconds: 300,
          awaitFirstBeat: true,
          recoveryBeats: 1,
          missedBeatsToOpen: 1,
          measurements: {},
          ...configuration,
        },
      },
      nowMs: clock.nowMs,
      atTheEnd: (step) => last.push(step as (tx: never) => Promise<void>),
    });
    for (const step of last) await step(tx as never);
  });
  const read = async () => {
    const [record] = await findMonitors(pool, name);
    if (!record) throw new Error('The monitor is gone.');
    return record;
  };
  const versioned = async () => ({ ...name, expectedVersion: (await read()).configurationVersion });
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000 });
  let batch = 0;
  const operator = { organizationId: project.organizationId, operatorId: 'operator' };
  /** Undefined: none beats the monitor. */
  let isLed: boolean | undefined;
  /** An operator that leads has given signs all along. */
  const keepSigning = async () => {
    if (isLed) await pool.query('update operator_signs set seen_ms = $1', [clock.nowMs]);
  };
  return {
    name,
    read,
    /** Of the item in the status feed. */
    because: async () => {
      await keepSigning();
      const scope = { organizationId: project.organizationId, projectId };
      const { items } = await readFeedPage(pool, { scope, limit: 1_000 });
      const told = await explainItems(pool, context, items);
      return told.find(({ monitor }) => monitor.monitorId === name.monitorId)?.because ?? '';
    },
    setState: async (state: ServiceState) =>
      await pool.query('update organizations set service_state = $2 where organization_id = $1', [
        project.organizationId,
        state,
      ]),
    explain: async (atMs?: number) => {
      await keepSigning();
      return await explainMonitor(pool, context, name, atMs);
    },
    /** From now on an operator beats it, which leads. */
    beBeaten: async () => {
      isLed = true;
      await insertOperator(pool, operator);
      await pool.query('update monitors set beaten_by = $2 where monitor_id = $1', [
        name.monitorId,
        operator.operatorId,
      ]);
    },
    /** The operator dies, or one leads again. Nothing where none beats the monitor. */
    setLed: async (willLead: boolean) => {
      if (isLed === undefined || isLed === willLead) return;
      await keepSigning();
      isLed = willLead;
      if (isLed) await signOperator(pool, operator);
    },
    beat: async (kind: Kind, measurements?: Record<string, number>) => {
      const entry = await directory.load((await read()).publishAddress);
      if (!entry) throw new Error('The address is gone.');
      const client = await pool.connect();
      batch += 1;
      const lane = { laneId: randomUUID(), batch, directory };
      try {
        await runBeatTransaction(
          client,
          [{ entry, beat: { ...plainBeat({ kind }, undefined), measurements } }],
          lane,
        );
      } finally {
        client.release();
      }
    },
    /** Throws where the action is not allowed. */
    act: async (action: LifecycleAction, window?: { startsMs: number; endsMs: number; reason?: string }) => {
      const change = { name: await versioned(), action, maintenance: window };
      await inTransaction(pool, async (tx) => await changeLifecycle(tx, context, caller, change));
    },
    patch: async (patch: object) => {
      const change = await versioned();
      const merge = (current: MonitorConfiguration) => {
        const merged = applyMonitorPatch(current, patch, { minimumIntervalSeconds: 60 });
        if ('configuration' in merged) return merged.configuration;
        throw new Error(JSON.stringify(merged.fieldErrors));
      };
      await inTransaction(
        pool,
        async (tx) => await changeConfiguration(tx, context, caller, { name: change, merge }),
      );
    },
    resolve: async (incidentId: string) =>
      await inTransaction(
        pool,
        async (tx) => await resolveIncident(tx, context, { caller, incidentId }, clock.nowMs),
      ),
    /** A sweeper looks at the monitor now, due or not. */
    sweep: async () => {
      await keepSigning();
      const { projectId: project_id, monitorKey } = await read();
      await pool.query(
        `update monitor_live set wake_ms = least(wake_ms, $3) where project_id = $1 and monitor_key = $2`,
        [project_id, monitorKey, clock.nowMs],
      );
      await moveClock(pool, clock.nowMs);
      await drain(makeSweep(pool));
    },
    /** Beatkeeper was away, and is back now. */
    haveOutage: async (ms: number) =>
      await pool.query('insert into service_outages (from_ms, to_ms) values ($1, $2)', [
        clock.nowMs - ms,
        clock.nowMs,
      ]),
    /** The service could not take beats. */
    excuse: async (beats: number) => {
      const { projectId: project_id, monitorKey } = await read();
      await pool.query(
        `update monitor_live set excused_from_ms = $3, excused_ms = $3, excused_beats = $4
         where project_id = $1 and monitor_key = $2`,
        [project_id, monitorKey, clock.nowMs, beats],
      );
    },
  };
}

export type History = Awaited<ReturnType<typeof makeHistory>>;

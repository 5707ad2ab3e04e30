// Monitors that depend on each other, on a database with a clock of its own, and the alerts that they send.

import type { MonitorConfiguration } from '../../src/domain/monitor.ts';
import { sweepHeldAlerts } from '../../src/sweeper/upkeep/sweep-held-alerts.ts';
import { type History, makeHistory } from '../api/explain-history.ts';
import { type ClockedFixture, openClockedFixture } from '../support/clocked-fixture.ts';
import { seedEndpoint } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

export const MINUTE = 60_000;

export interface IncidentSeen {
  incidentId: string;
  openedMs: number;
  endedMs?: number;
  state: string;
  suppressedBy?: { monitorId: string; incidentId: string };
  /** Moments and types of what was sent, oldest first. */
  sent: { atMs: number; event: string; body: string }[];
  /** Reasons of what was not. */
  suppressed: { event: string; reason: string }[];
}

export interface DependencyFixture extends ClockedFixture {
  /** With five minutes of interval and one of grace, unless stated otherwise; alerts go to the default endpoint. */
  make(configuration?: Partial<MonitorConfiguration>): Promise<History>;
  /** Lets so much time pass; a sweeper looks each ten seconds. */
  pass(ms: number): Promise<void>;
  /** Oldest first. */
  incidentsOf(history: History): Promise<IncidentSeen[]>;
}

const LOOKS_MS = 10_000;

export async function openDependencyFixture(): Promise<DependencyFixture> {
  const fixture = await openClockedFixture();
  const { clock, project } = fixture;
  await seedEndpoint(fixture, 'http://127.0.0.1:9/alerts', true);
  return {
    ...fixture,
    async make(configuration = {}) {
      const history = await makeHistory(fixture, clock, {
        ...{ intervalSeconds: 300, graceSeconds: 60 },
        ...configuration,
      });
      await clock.pool.query(
        `update monitors set binding_kind = 'organization_default' where project_id = $1 and monitor_id = $2`,
        [project.projectId, history.name.monitorId],
      );
      return history;
    },
    async pass(ms) {
      const endMs = clock.nowMs + ms;
      while (clock.nowMs < endMs) {
        await clock.pass(Math.min(LOOKS_MS, endMs - clock.nowMs));
        await moveClock(clock.pool, clock.nowMs);
        await sweepHeldAlerts(clock);
        await drain(makeSweep(clock.pool));
      }
    },
    async incidentsOf({ name }) {
      const { rows } = await clock.pool.query(
        `select i.incident_id as "incidentId", i.state, extract(epoch from i.opened_at)::float8 * 1000 as "openedMs",
           extract(epoch from coalesce(i.recovered_at, i.resolved_at))::float8 * 1000 as "endedMs",
           i.suppressed_by as "suppressedBy",
           (select coalesce(json_agg(json_build_object('atMs', extract(epoch from (d.body::json ->> 'timestamp')::timestamptz) * 1000,
               'event', d.event, 'body', d.body) order by d.sequence), '[]')
             from deliveries d where d.project_id = i.project_id and d.incident_id = i.incident_id) as sent,
           (select coalesce(json_agg(t.detail order by t.at, t.entry_id), '[]')
             from timeline_entries t where t.project_id = i.project_id and t.incident_id = i.incident_id
               and t.type = 'suppressed') as suppressed
         from incidents i where i.project_id = $1 and i.monitor_id = $2 order by i.opened_at, i.incident_id`,
        [name.projectId, name.monitorId],
      );
      return rows;
    },
  };
}

// The health filter in SQL agrees with domain/health.ts in every state of a monitor.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { healthOf } from '../../src/domain/health.ts';
import { type MaintenanceSchedule, recurrenceOf, windowFrom } from '../../src/domain/maintenance.ts';
import { HEALTHS, type Health } from '../../src/domain/monitor.ts';
import { listMonitors } from '../../src/store/monitors/monitor-list.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { seedMonitors, seedProject } from '../support/seed.ts';

let database: DatabaseFixture;
let pool: Pool;

beforeAll(async () => {
  database = await openDatabaseFixture();
  pool = database.pool;
});
afterAll(() => database?.close());

// Offsets from now in seconds, far enough from zero that the clock does not decide.
const offset = fc.constantFrom(-7_200, -3_600, -1_000, 500, 1_500, 3_600, 7_200);
const incident = fc.record({
  kind: fc.constantFrom('missed_deadline', 'reported_failure', 'overdue_run', 'rule_violation'),
  state: fc.constantFrom('open', 'recovering', 'recovered', 'resolved'),
  severity: fc.constantFrom('info', 'warning', 'critical'),
});
const monitor = fc.record({
  lifecycle: fc.constantFrom('active', 'active', 'active', 'paused', 'archived'),
  maintenance: fc.option(fc.tuple(offset, offset), { nil: undefined, freq: 3 }),
  /** Minutes from now to the daily window of a schedule, which lasts for an hour. */
  recursIn: fc.constantFrom(undefined, undefined, undefined, -20, 300),
  graceSeconds: fc.constantFrom(60, 2_000),
  hasSchedule: fc.boolean(),
  deadline: fc.option(offset, { nil: undefined }),
  hasBeaten: fc.boolean(),
  missedCount: fc.constantFrom(0, 0, 0, 1),
  incidents: fc.uniqueArray(incident, { maxLength: 3, selector: (it) => it.kind }),
});
type Drawn = typeof monitor extends fc.Arbitrary<infer Value> ? Value : never;

function dailyIn(minutes: number): MaintenanceSchedule {
  const at = new Date(Date.now() + minutes * 60_000);
  const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
  return { cron, timeZone: 'UTC', durationSeconds: 3_600 };
}

async function insert(drawn: Drawn, project: Awaited<ReturnType<typeof seedProject>>) {
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
  const schedules = drawn.recursIn === undefined ? undefined : [dailyIn(drawn.recursIn)];
  const [startsMs = 0, endsMs = 0] = (drawn.maintenance ?? []).map((seconds) => Date.now() + seconds * 1000);
  const recurrence = recurrenceOf(schedules);
  const maintained = { maintenance: drawn.maintenance && { startsMs, endsMs }, recurrence };
  const window = recurrence && windowFrom(maintained, Date.now());
  const [seeded] = await seedMonitors(pool, project, 1, {
    configuration: {
      lifecycle: drawn.lifecycle,
      grace_seconds: drawn.graceSeconds,
      ...(drawn.hasSchedule && {
        interval_seconds: null,
        schedule_cron: '0 * * * *',
        schedule_time_zone: 'UTC',
      }),
      maintenance_starts_at: drawn.maintenance && at(drawn.maintenance[0]),
      maintenance_ends_at: drawn.maintenance && at(drawn.maintenance[1]),
      maintenance_schedules: schedules,
    },
    live: {
      deadline_ms: drawn.deadline === undefined ? undefined : Date.now() + drawn.deadline * 1000,
      first_beat_ms: drawn.hasBeaten ? 1 : undefined,
      missed_count: drawn.missedCount,
      recurs_from_ms: window?.startsMs,
      recurs_until_ms: window?.endsMs,
    },
  });
  for (const [index, { kind, state, severity }] of drawn.incidents.entries()) {
    await pool.query(
      `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
         opened_at, summary)
       values ($1, $2, $3, $4, 'unrestricted', $5, $6, $7, now(), 'x')`,
      [
        project.projectId,
        `${seeded?.monitorId}_${index}`,
        seeded?.monitorKey,
        seeded?.monitorId,
        kind,
        state,
        severity,
      ],
    );
  }
}

describe('the health filter', () => {
  it('the health filter finds exactly the monitors of that health', async () => {
    const project = await seedProject(pool);
    const drawn = fc.sample(monitor, 250);
    for (const one of drawn) await insert(one, project);
    const { monitors: all } = await listMonitors(pool, project.projectId, {}, { limit: 1_000 });
    expect(all).toHaveLength(250);
    const expected = new Map<string, Health>();
    for (const record of all) {
      const { lifecycle, maintenance, live, openIncidents, nowMs, configuration } = record;
      const { schedule, graceSeconds, maintenanceSchedules } = configuration;
      const recurrence = recurrenceOf(maintenanceSchedules);
      const timing = { lifecycle, maintenance, recurrence, graceMs: graceSeconds * 1000, schedule };
      expected.set(record.monitorId, healthOf(timing, live, openIncidents, nowMs));
    }
    for (const health of HEALTHS) {
      const { monitors: found } = await listMonitors(pool, project.projectId, { health }, { limit: 1_000 });
      const wanted = all.filter((record) => expected.get(record.monitorId) === health);
      expect(found.map((record) => record.monitorId)).toEqual(wanted.map((record) => record.monitorId));
      expect(wanted.length, `no drawn monitor is ${health}`).toBeGreaterThan(0);
    }
  });
});

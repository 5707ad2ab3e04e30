// The sweep of deadlines on a real database: which incidents it opens, and which it does not.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openIncident } from '../../src/domain/incident.ts';
import { insertIncidents, type Openings } from '../../src/store/incidents/opened-incidents.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { settleServiceClock } from '../../src/store/upkeep/service-clock.ts';
import { startPingServer } from '../ingest/ping-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, type SeedMonitor, seedEndpoint, seedMonitor, seedMonitors } from '../support/seed.ts';
import { incidentsOf, liveOf, timelineOf } from '../support/stored-rows.ts';
import { CLOCK_API, drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
  await seedEndpoint(fixture, 'http://127.0.0.1:9/', true);
});
afterAll(() => fixture?.close());

const MINUTE_MS = 60_000;

/** A monitor with an interval of one minute and a grace of one minute, whose last beat was `agoMs` ago. */
async function monitorBeatenAgo(
  agoMs: number,
  configuration: Record<string, unknown> = {},
  live: Record<string, unknown> = {},
): Promise<SeedMonitor> {
  const beatMs = (await readNow(fixture.pool)) - agoMs;
  const deadlineMs = beatMs + 2 * MINUTE_MS;
  return await seedMonitor(fixture.pool, fixture.project, {
    configuration,
    live: {
      anchor_ms: beatMs,
      first_beat_ms: beatMs,
      last_beat_ms: beatMs,
      last_success_ms: beatMs,
      last_sequence: 1,
      deadline_ms: deadlineMs,
      wake_ms: deadlineMs - MINUTE_MS,
      ...live,
    },
  });
}

async function sweep(): Promise<void> {
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
}

describe('a missed deadline', () => {
  it('a missed deadline opens one incident, with its timeline and its alert, and no other one later', async () => {
    const monitor = await monitorBeatenAgo(2 * MINUTE_MS + 500);
    await sweep();
    await sweep();
    const [incident, ...others] = await incidentsOf(fixture.pool, monitor);
    expect(others).toEqual([]);
    expect(incident).toMatchObject({ kind: 'missed_deadline', state: 'open', severity: 'critical' });
    expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([
      { type: 'opened', detail: null },
    ]);
    const { rows } = await fixture.pool.query(
      'select event, sequence, state, body from deliveries where incident_id = $1',
      [incident.incident_id],
    );
    expect(rows).toMatchObject([{ event: 'incident.opened', sequence: 1, state: 'pending' }]);
    expect(JSON.parse(rows[0].body).data.incident.deadlineAt).toBe(incident.deadline_at.toISOString());
    expect(await liveOf(fixture.pool, monitor)).toMatchObject({
      open_incidents: 1,
      deadline_ms: null,
      wake_ms: null,
    });
  });

  it('a late monitor is written before its deadline, so that the status feed shows it as late', async () => {
    const monitor = await monitorBeatenAgo(MINUTE_MS + 500);
    const before = await liveOf(fixture.pool, monitor);
    await sweep();
    const after = await liveOf(fixture.pool, monitor);
    expect(await incidentsOf(fixture.pool, monitor)).toEqual([]);
    expect(after.changed_xid).not.toBe(before.changed_xid);
    expect(after.wake_ms).toBe(after.deadline_ms);
  });

  it('an incident opens after as many missed deadlines in a row as missedBeatsToOpen says', async () => {
    const lets = { missed_beats_to_open: 3 };
    const after2 = await monitorBeatenAgo(3 * MINUTE_MS + 500, lets);
    const after3 = await monitorBeatenAgo(4 * MINUTE_MS + 500, lets);
    await sweep();
    expect(await incidentsOf(fixture.pool, after2)).toEqual([]);
    expect(await liveOf(fixture.pool, after2)).toMatchObject({ missed_count: 2 });
    expect(await incidentsOf(fixture.pool, after3)).toHaveLength(1);
  });

  it('a deadline behind the service clock opens nothing, because no api could accept a beat', async () => {
    const monitor = await monitorBeatenAgo(2 * MINUTE_MS + 500);
    await moveClock(fixture.pool, (await liveOf(fixture.pool, monitor)).deadline_ms - 1);
    await drain(makeSweep(fixture.pool));
    expect(await incidentsOf(fixture.pool, monitor)).toEqual([]);
    await sweep();
    expect(await incidentsOf(fixture.pool, monitor)).toHaveLength(1);
  });

  it('an incident without an endpoint sends no alert and records why in its timeline', async () => {
    const monitor = await monitorBeatenAgo(2 * MINUTE_MS + 500, {
      binding_kind: 'named',
      binding_alias: 'nobody',
    });
    await sweep();
    const [incident] = await incidentsOf(fixture.pool, monitor);
    expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([
      { type: 'opened' },
      { type: 'suppressed', detail: { reason: 'alias_not_found' } },
    ]);
  });

  it('a missed deadline opens nothing while the monitor is paused or in maintenance', async () => {
    const now = await readNow(fixture.pool);
    const paused = await monitorBeatenAgo(3 * MINUTE_MS, { lifecycle: 'paused' });
    const endsMs = now + 10 * MINUTE_MS;
    const maintained = await monitorBeatenAgo(3 * MINUTE_MS, {
      maintenance_starts_at: new Date(now - MINUTE_MS),
      maintenance_ends_at: new Date(endsMs),
    });
    await sweep();
    expect(await incidentsOf(fixture.pool, paused)).toEqual([]);
    expect(await liveOf(fixture.pool, paused)).toMatchObject({ wake_ms: null });
    expect(await incidentsOf(fixture.pool, maintained)).toEqual([]);
    expect(await liveOf(fixture.pool, maintained)).toMatchObject({
      deadline_ms: endsMs,
      wake_ms: endsMs - MINUTE_MS,
    });
  });

  it('a deadline that passes without a beat after the maintenance window opens an incident', async () => {
    const now = await readNow(fixture.pool);
    const ended = {
      maintenance_starts_at: new Date(now - 10 * MINUTE_MS),
      maintenance_ends_at: new Date(now - 500),
    };
    const monitor = await monitorBeatenAgo(11 * MINUTE_MS, ended, {
      deadline_ms: now - 500,
      wake_ms: now - 500,
    });
    await sweep();
    expect(await incidentsOf(fixture.pool, monitor)).toHaveLength(1);
  });
});

describe('a run', () => {
  it('a run that lasts too long opens one incident', async () => {
    const now = await readNow(fixture.pool);
    const runs = [{ runId: 'a', startedMs: now - 61_000, dueMs: now - 1_000 }];
    const monitor = await monitorBeatenAgo(
      MINUTE_MS / 2,
      { max_runtime_seconds: 60 },
      { open_runs: runs, wake_ms: now - 1_000 },
    );
    await sweep();
    await sweep();
    expect(await incidentsOf(fixture.pool, monitor)).toMatchObject([{ kind: 'overdue_run', state: 'open' }]);
    expect((await liveOf(fixture.pool, monitor)).open_runs).toMatchObject([{ runId: 'a', overdue: true }]);
  });
});

describe('an outage of our own', () => {
  it('an outage longer than interval and grace opens no false incident, and is shown in the timeline of a true one', async () => {
    const own = await openProjectFixture();
    try {
      const now = await readNow(own.pool);
      // After the last beat everything was down for ten minutes.
      const seed = (agoMs: number) =>
        seedMonitor(own.pool, own.project, {
          live: {
            anchor_ms: now - agoMs,
            last_beat_ms: now - agoMs,
            deadline_ms: now - agoMs + 2 * MINUTE_MS,
            wake_ms: now - agoMs + MINUTE_MS,
          },
        });
      await seed(10 * MINUTE_MS + 30_000);
      const dead = await seed(11 * MINUTE_MS + 59_900);
      await moveClock(own.pool, now - 10 * MINUTE_MS);
      await drain(makeSweep(own.pool));
      const { outages } = await settleServiceClock(own.pool, CLOCK_API, ({ nowMs }) => ({
        decidedMs: nowMs,
      }));
      expect(outages).toHaveLength(1);
      await drain(makeSweep(own.pool));
      const open = 'select monitor_key, incident_id from incidents';
      expect((await own.pool.query(open)).rows).toEqual([]);
      // The deadline was 100 ms after the start of the outage. Now it is interval and grace after its end.
      const [shifted] = (
        await own.pool.query(
          `select deadline_ms - to_ms as after_ms from monitor_live, service_outages where monitor_key = $1`,
          [dead.monitorKey],
        )
      ).rows;
      expect(shifted).toEqual({ after_ms: 2 * MINUTE_MS });
      // That time passes: all of it becomes older.
      const ageMs = 2 * MINUTE_MS;
      await own.pool.query(
        `update monitor_live set anchor_ms = anchor_ms - $1, unmoved_ms = unmoved_ms - $1,
           deadline_ms = deadline_ms - $1, wake_ms = deadline_ms - $1 where monitor_key = $2`,
        [ageMs, dead.monitorKey],
      );
      await own.pool.query('update service_outages set from_ms = from_ms - $1, to_ms = to_ms - $1', [ageMs]);
      await moveClock(own.pool);
      await drain(makeSweep(own.pool));
      const { rows } = await own.pool.query(open);
      expect(rows).toMatchObject([{ monitor_key: dead.monitorKey }]);
      expect(await timelineOf(own.pool, rows[0].incident_id)).toMatchObject([
        { type: 'opened' },
        { type: 'service_outage', detail: { from: expect.any(String), to: expect.any(String) } },
        { type: 'suppressed' },
      ]);
    } finally {
      await own.close();
    }
  });
});

describe('a beat that the service could not take', () => {
  it('a refused beat moves the deadline, and the timeline of a later incident names it', async () => {
    const refusedAgo = async (agoMs: number) => {
      const atMs = (await readNow(fixture.pool)) - agoMs;
      const excuse = { excused_from_ms: atMs - 5_000, excused_ms: atMs, excused_beats: 2 };
      return { atMs, monitor: await monitorBeatenAgo(3 * MINUTE_MS, {}, excuse) };
    };
    const living = await refusedAgo(2 * MINUTE_MS - 30_000);
    const dead = await refusedAgo(2 * MINUTE_MS + 500);
    await sweep();
    expect(await incidentsOf(fixture.pool, living.monitor)).toEqual([]);
    expect(await liveOf(fixture.pool, living.monitor)).toMatchObject({
      deadline_ms: living.atMs + 2 * MINUTE_MS,
      last_sequence: 1,
    });
    const [incident] = await incidentsOf(fixture.pool, dead.monitor);
    expect(await timelineOf(fixture.pool, incident.incident_id)).toMatchObject([
      { type: 'opened' },
      {
        type: 'service_outage',
        detail: {
          from: new Date(dead.atMs - 5_000).toISOString(),
          to: new Date(dead.atMs).toISOString(),
          refusedBeats: 2,
        },
      },
    ]);
  });
});

describe('a beat and a sweep on one row', () => {
  it('a beat that has locked the row prevents the incident, and the sweep does not wait for it', async () => {
    const monitor = await monitorBeatenAgo(2 * MINUTE_MS + 500);
    const beat = await fixture.pool.connect();
    try {
      await beat.query('begin');
      const now = await readNow(fixture.pool);
      await beat.query(
        'update monitor_live set deadline_ms = $2, wake_ms = $3, last_beat_ms = $4, anchor_ms = $4 where monitor_key = $1',
        [monitor.monitorKey, now + 2 * MINUTE_MS, now + MINUTE_MS, now],
      );
      await sweep();
      await beat.query('commit');
    } finally {
      beat.release();
    }
    await sweep();
    expect(await incidentsOf(fixture.pool, monitor)).toEqual([]);
  });

  it('when many beats and sweeps meet, each beat is recorded and no incident stays open', async () => {
    const own = await openProjectFixture();
    const server = await startPingServer(own.databaseUrl, { lanes: 2 });
    try {
      const now = await readNow(own.pool);
      await moveClock(own.pool);
      const monitors = await seedMonitors(own.pool, own.project, 300, {
        live: {
          anchor_ms: now - 2 * MINUTE_MS - 10,
          last_beat_ms: now - 2 * MINUTE_MS - 10,
          deadline_ms: now - 10,
          wake_ms: now - 10,
        },
      });
      const beats = monitors.map(({ address }) => fetch(`${server.url}/ping/${address}`));
      const sweeps = Array.from({ length: 3 }, () => drain(makeSweep(own.pool, { batchSize: 25 })));
      const answers = await Promise.all(beats);
      await Promise.all(sweeps);
      expect(answers.map(({ status }) => status)).toEqual(monitors.map(() => 200));
      const { rows } = await own.pool.query(
        `select count(*) filter (where i.state in ('open', 'recovering'))::integer as open,
           count(i.incident_id)::integer as incidents, sum(l.last_sequence)::integer as beats,
           sum(l.open_incidents)::integer as counted,
           count(*) filter (where l.deadline_ms is null)::integer as stopped
         from monitor_live l left join incidents i using (project_id, monitor_key)`,
      );
      expect(rows).toMatchObject([{ open: 0, beats: 300, counted: 0, stopped: 0 }]);
    } finally {
      await server.close();
      await own.close();
    }
  });
});

/** An incident of the monitor that its live row does not count. */
function openedBefore(monitor: SeedMonitor, openedMs: number): Openings {
  const { incident } = openIncident(
    { kind: 'missed_deadline', severity: 'critical', summary: 'Opened before.' },
    openedMs,
  );
  return { openedMs, incidents: [{ ...monitor, jurisdiction: 'unrestricted', incident }] };
}

describe('a monitor at fault', () => {
  it('a monitor at fault holds up no other, and is tried again a minute later', async () => {
    const monitors = await Promise.all(
      Array.from({ length: 20 }, () => monitorBeatenAgo(2 * MINUTE_MS + 500)),
    );
    const [unversioned, doubled] = monitors;
    if (!unversioned || !doubled) throw new Error('no monitors');
    await fixture.pool.query('update monitor_live set configuration_version = 7 where monitor_key = $1', [
      unversioned.monitorKey,
    ]);
    // An open incident that the live row does not count: the batch fails on the unique index.
    const now = await readNow(fixture.pool);
    await insertIncidents(fixture.pool, openedBefore(doubled, now));
    await sweep();
    for (const monitor of monitors) {
      expect(await incidentsOf(fixture.pool, monitor)).toHaveLength(monitor === unversioned ? 0 : 1);
    }
    expect(await liveOf(fixture.pool, doubled)).toMatchObject({ open_incidents: 1, wake_ms: null });
    expect((await liveOf(fixture.pool, unversioned)).wake_ms).toBeGreaterThan(now + 30_000);
  });

  it('the monitors behind one at fault are not woken one by one', async () => {
    const own = await openProjectFixture();
    try {
      const now = await readNow(own.pool);
      const first = await seedMonitor(own.pool, own.project, dueAt(now - 1_000));
      await insertIncidents(own.pool, openedBefore(first, now));
      await seedMonitors(own.pool, own.project, 400, dueAt(now - 500));
      await moveClock(own.pool);
      let batches = 0;
      await drain(makeSweep(own.pool, { onTransitions: () => (batches += 1) }));
      const { rows } = await own.pool.query('select count(*)::integer as count from incidents');
      expect(rows).toEqual([{ count: 401 }]);
      expect(batches).toBeLessThan(50);
    } finally {
      await own.close();
    }
  });
});

// The service clock: each gap becomes one outage, with an entry in the timeline of every incident that has not ended.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newId, newUuid } from '../../src/domain/id.ts';
import type { Outage } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import {
  advanceServiceClock,
  notifyIncidentsOfOutage,
  readOutages,
  recordStuckBeats,
} from '../../src/store/upkeep/service-clock.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';

let fixture: ProjectFixture;
let pool: Pool;
beforeEach(async () => {
  fixture = await openProjectFixture();
  pool = fixture.pool;
});
afterEach(() => fixture?.close());

async function readClock(): Promise<number | undefined> {
  const { rows } = await pool.query<{ last_ms: number }>('select last_ms from service_clock');
  return rows[0]?.last_ms;
}

const stopFor = (ms: number) => pool.query('update service_clock set last_ms = last_ms - $1', [ms]);

async function seedIncident(projectId: string, state: string): Promise<string> {
  const incidentId = newId('inc');
  await pool.query(
    `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state,
       severity, opened_at, summary)
     values ($1, $2, $3, 'm', 'unrestricted', 'missed_deadline', $4, 'critical', now(), 'x')`,
    [projectId, incidentId, newUuid(), state],
  );
  return incidentId;
}

describe('the service clock', () => {
  it('the service clock begins at the time of the database, without an outage', async () => {
    expect(await readClock()).toBeUndefined();
    expect(await advanceServiceClock(pool)).toBeUndefined();
    const first = (await readClock()) ?? 0;
    expect(Math.abs(first - Date.now())).toBeLessThan(60_000);
    expect(await readOutages(pool, 0)).toEqual([]);
  });

  it('a gap of at most three seconds records no outage', async () => {
    await advanceServiceClock(pool);
    for (let gapMs = Number.POSITIVE_INFINITY; gapMs > 3_000; ) {
      // Repeated until a try is fast enough: the gap includes the time of the try.
      await pool.query(
        'update service_clock set last_ms = extract(epoch from clock_timestamp()) * 1000 - 2500',
      );
      const before = (await readClock()) ?? 0;
      const outage = await advanceServiceClock(pool);
      gapMs = ((await readClock()) ?? 0) - before;
      expect(outage !== undefined).toBe(gapMs > 3_000);
    }
  });

  it('a gap of more than three seconds records an outage from the last advance to the next', async () => {
    await advanceServiceClock(pool);
    await stopFor(10_000);
    const fromMs = await readClock();
    const outage = await advanceServiceClock(pool);
    expect(outage?.fromMs).toBe(fromMs);
    expect(outage?.toMs).toBe(await readClock());
    expect(await readOutages(pool, 0)).toEqual([{ fromMs, toMs: outage?.toMs }]);
    expect(await readOutages(pool, outage?.toMs ?? 0)).toEqual([]);
  });

  it('an outage is recorded once, however many apis find it', async () => {
    await advanceServiceClock(pool);
    await stopFor(60_000);
    const fromMs = await readClock();
    const found = await Promise.all(Array.from({ length: 8 }, () => advanceServiceClock(pool)));
    // Recognized by its start: an api that came seconds after the others would have found another gap.
    const isThis = (outage: Outage | undefined) => outage?.fromMs === fromMs;
    expect(found.filter(isThis)).toHaveLength(1);
    expect((await readOutages(pool, 0)).filter(isThis)).toHaveLength(1);
  });

  it('an outage is in the timeline of each incident that has not ended', async () => {
    const { projectId } = fixture.project;
    const running = [await seedIncident(projectId, 'open'), await seedIncident(projectId, 'recovering')];
    await seedIncident(projectId, 'recovered');
    await seedIncident(projectId, 'resolved');
    await advanceServiceClock(pool);
    await stopFor(5_000);
    const before = newUuid();
    const outage = await advanceServiceClock(pool);
    const { rows } = await pool.query(
      'select incident_id, entry_id, type, detail, at from timeline_entries order by incident_id',
    );
    expect(rows.map((row) => row.incident_id)).toEqual(running.toSorted((a, b) => (a < b ? -1 : 1)));
    for (const row of rows) {
      expect(row).toMatchObject({
        type: 'service_outage',
        detail: {
          from: new Date(outage?.fromMs ?? 0).toISOString(),
          to: new Date(outage?.toMs ?? 0).toISOString(),
        },
        at: new Date(outage?.toMs ?? 0),
      });
      // Ids are in the order of time, like those that the application makes.
      expect(row.entry_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(row.entry_id.slice(0, 8) >= before.slice(0, 8)).toBe(true);
      expect(row.entry_id.slice(0, 13) <= newUuid().slice(0, 13)).toBe(true);
    }
  });

  it('an incident names an outage once, even if it is notified twice', async () => {
    const { projectId } = fixture.project;
    await seedIncident(projectId, 'open');
    await notifyIncidentsOfOutage(pool, { fromMs: 1_000, toMs: 6_000 });
    await notifyIncidentsOfOutage(pool, { fromMs: 1_000, toMs: 6_000 });
    expect((await pool.query('select from timeline_entries')).rowCount).toBe(1);
  });

  it('a late api does not move the service clock back', async () => {
    await advanceServiceClock(pool);
    for (let aheadMs = 0; aheadMs < 100; ) {
      // Repeated until a try is fast enough: during a slow one the database's clock overtakes the service clock.
      await pool.query(
        'update service_clock set last_ms = extract(epoch from clock_timestamp()) * 1000 + 2000',
      );
      const ahead = (await readClock()) ?? 0;
      expect(await advanceServiceClock(pool)).toBeUndefined();
      const after = (await readClock()) ?? 0;
      expect(after).toBeGreaterThanOrEqual(ahead);
      aheadMs = after === ahead ? 100 : 0;
    }
  });

  it('the service clock follows a database clock that was set back, and later outages are found', async () => {
    await advanceServiceClock(pool);
    await stopFor(-3_600_000);
    expect(await advanceServiceClock(pool)).toMatchObject({ kind: 'set_back' });
    expect(Math.abs(((await readClock()) ?? 0) - Date.now())).toBeLessThan(60_000);
    await stopFor(10_000);
    expect(await advanceServiceClock(pool)).toMatchObject({ kind: 'outage' });
  });

  it('a clock that was an hour ahead for a moment leaves no outage of an hour', async () => {
    await advanceServiceClock(pool);
    const startMs = (await readClock()) ?? 0;
    await pool.query('insert into service_outages (from_ms, to_ms) values ($1, $2), ($3, $4)', [
      ...[startMs - 5_000, startMs + 3_600_000],
      ...[startMs - 90_000, startMs - 80_000],
    ]);
    await stopFor(-3_600_000);
    const gap = await advanceServiceClock(pool);
    expect(await readOutages(pool, 0)).toEqual([
      { fromMs: startMs - 90_000, toMs: startMs - 80_000 },
      { fromMs: startMs - 5_000, toMs: gap?.toMs },
    ]);
  });

  it('the outage of stuck beats is recorded in pieces while it lasts, and not again when beats get through', async () => {
    await advanceServiceClock(pool);
    await stopFor(90_000);
    const startMs = (await readClock()) ?? 0;
    const first = await recordStuckBeats(pool, 4_000);
    expect(first).toMatchObject({ fromMs: startMs, pieceMs: startMs });
    const second = await recordStuckBeats(pool, 4_000, first);
    expect(second).toMatchObject({ fromMs: startMs, pieceMs: first.toMs });
    const third = await recordStuckBeats(pool, 4_000, second);
    expect(third.pieceMs).toBe(first.toMs);
    expect(await readOutages(pool, 0)).toEqual([
      { fromMs: startMs, toMs: first.toMs },
      { fromMs: first.toMs, toMs: third.toMs },
    ]);
    expect(await readClock()).toBe(startMs);
    const gap = await advanceServiceClock(pool);
    expect(await readClock()).toBeGreaterThanOrEqual(third.toMs);
    // Only a machine that stood still for some seconds may add one.
    if (gap) expect(gap.toMs - third.toMs).toBeGreaterThan(3_000);
  });

  it('an outage is recorded whole even if the api that recorded its beginning died before its end', async () => {
    await advanceServiceClock(pool);
    await stopFor(10_000);
    const { toMs } = await recordStuckBeats(pool, 4_000);
    await stopFor(600_000);
    await pool.query('update service_outages set from_ms = from_ms - 600000, to_ms = $1', [toMs - 600_000]);
    const gap = await advanceServiceClock(pool);
    expect(gap?.toMs).toBeGreaterThanOrEqual(toMs);
    expect(await readOutages(pool, 0)).toEqual([{ fromMs: gap?.fromMs, toMs: gap?.toMs }]);
  });
});

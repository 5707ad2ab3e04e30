// Outages in the timelines of open incidents: written after the outage, in pieces, once for each incident.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { settleServiceClock } from '../../src/store/upkeep/service-clock.ts';
import { tellOutages } from '../../src/sweeper/upkeep/tell-outages.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { CLOCK_API, drain, moveClock } from '../support/sweeper-fixture.ts';

let fixture: ProjectFixture;
beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

const MINUTE_MS = 60_000;

/** `count` incidents, three for each monitor. */
async function seedIncidents(count: number, state = 'open', openedAgoMs = 60 * MINUTE_MS): Promise<void> {
  await fixture.pool.query(
    `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
       opened_at, summary)
     select $1, 'inc_' || gen_random_uuid(), m.key, 'm', 'unrestricted', k.kind, $3, 'critical',
       clock_timestamp() - $4 * interval '1 millisecond', 'x'
     from (select gen_random_uuid() as key from generate_series(1, $2::integer / 3)) m,
       unnest(array['missed_deadline', 'overdue_run', 'reported_failure']) as k (kind)`,
    [fixture.project.projectId, count, state, openedAgoMs],
  );
}

/** Nobody ran for five minutes, which ended `agoMs` ago. Returns the outage. */
async function haveOutage(agoMs = MINUTE_MS): Promise<{ fromMs: number; toMs: number }> {
  const { rows } = await fixture.pool.query(
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms',
  );
  await moveClock(fixture.pool, rows[0].now_ms - 5 * MINUTE_MS);
  const { outages } = await settleServiceClock(fixture.pool, CLOCK_API, ({ nowMs }) => ({
    decidedMs: nowMs,
  }));
  const [outage] = outages;
  if (!outage) throw new Error('no outage');
  const { rows: moved } = await fixture.pool.query(
    'update service_outages set from_ms = from_ms - $1, to_ms = to_ms - $1 where to_ms = $2 returning *',
    [agoMs, outage.toMs],
  );
  return { fromMs: moved[0].from_ms, toMs: moved[0].to_ms };
}

async function entriesOfIncidents(): Promise<{ incidents: number; entries: number }> {
  const { rows } = await fixture.pool.query(
    'select count(distinct incident_id)::integer as incidents, count(*)::integer as entries from timeline_entries',
  );
  return rows[0];
}

const tell = () => drain({ run: () => tellOutages(fixture) });

it('an outage is in the timeline of each incident that was open in it, and of no other', async () => {
  await seedIncidents(3);
  await seedIncidents(3, 'recovering', 2 * MINUTE_MS);
  await seedIncidents(3, 'recovered');
  await seedIncidents(3, 'resolved');
  const { fromMs, toMs } = await haveOutage();
  await seedIncidents(3, 'open', 0);
  await tell();
  await tell();
  const { rows } = await fixture.pool.query(
    `select t.entry_id, t.type, t.detail, t.at, i.state from timeline_entries t join incidents i using (project_id, incident_id)
     order by i.state`,
  );
  expect(rows.map(({ state }) => state)).toEqual([
    ...Array.from({ length: 3 }, () => 'open'),
    ...Array.from({ length: 3 }, () => 'recovering'),
  ]);
  for (const row of rows) {
    expect(row).toMatchObject({
      type: 'service_outage',
      detail: { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() },
      at: new Date(toMs),
    });
    // Ids are in the order of time, like those that the application makes.
    expect(row.entry_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(Number.parseInt(row.entry_id.replaceAll('-', '').slice(0, 12), 16)).toBe(toMs);
  }
});

it('the clock writes no timeline, and the sweepers write the timelines of 5,000 incidents once, in pieces', async () => {
  await seedIncidents(5_001);
  await haveOutage(20 * MINUTE_MS);
  await haveOutage();
  expect(await entriesOfIncidents()).toEqual({ incidents: 0, entries: 0 });
  expect(await tellOutages(fixture)).toBe('more');
  // All incidents of a monitor are in one piece.
  expect(await entriesOfIncidents()).toEqual({ incidents: 1_002, entries: 1_002 });
  await Promise.all([tell(), tell(), tell()]);
  await tell();
  expect(await entriesOfIncidents()).toEqual({ incidents: 5_001, entries: 10_002 });
  expect(await tellOutages(fixture)).toBe('idle');
});

it('a piece that breaks off is written again, and no incident names the outage twice', async () => {
  await seedIncidents(2_100);
  await haveOutage();
  await tellOutages(fixture);
  const { pool } = fixture;
  await pool.query(
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'the process dies here'; end $$;
     create trigger refuse before update on service_outages for each row execute function refuse()`,
  );
  await expect(tellOutages(fixture)).rejects.toThrow('the process dies here');
  expect((await entriesOfIncidents()).entries).toBe(1_002);
  await pool.query('drop trigger refuse on service_outages');
  // As if the first piece had been lost too.
  await pool.query('update service_outages set told_project_id = null, told_monitor_key = null');
  await tell();
  expect(await entriesOfIncidents()).toEqual({ incidents: 2_100, entries: 2_100 });
});

// What a page of the list of incidents reads, whatever is in the table.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type IncidentFilter, listIncidents, listTimeline } from '../../src/store/incidents/incidents.ts';
import type { KeysetPosition } from '../../src/store/postgres/keyset.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';

const EACH = 4_000;
const LIMIT = 11;

let fixture: ProjectFixture;
let monitor: SeedMonitor;

/** Each of two monitors has incidents that ended, and the first one has one that is open, older than some of them. */
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  const [first, second] = await seedMonitors(pool, project, 2);
  if (!first || !second) throw new Error('no monitors');
  monitor = first;
  await pool.query(
    `insert into incidents (project_id, incident_id, monitor_key, monitor_id, jurisdiction, kind, state, severity,
       opened_at, summary)
     select $1, 'inc_' || lpad(to_hex(n), 12, '0') || repeat('0', 20), k.monitor_key, k.monitor_id, 'unrestricted',
       'missed_deadline', case n when 5000 then 'open' else 'recovered' end, 'critical',
       to_timestamp(n / 1000.0), 'No beat came.'
     from generate_series(1, $2::integer) as n
     join unnest($3::uuid[], $4::text[]) with ordinality as k (monitor_key, monitor_id, place) on k.place = 1 + n % 2`,
    [
      project.projectId,
      2 * EACH,
      [first, second].map((one) => one.monitorKey),
      [first, second].map((one) => one.monitorId),
    ],
  );
  await pool.query('vacuum analyze incidents');
});
afterAll(() => fixture?.close());

interface Plan {
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: Plan[];
}

const rowsOf = (plan: Plan): number =>
  plan['Actual Loops'] * (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) +
  (plan.Plans ?? []).reduce((sum, child) => sum + rowsOf(child), 0);

/** `read`: how many rows all steps of the plans read. */
function explainingDb(): { db: Queryable; read: () => number } {
  const { pool } = fixture;
  let rows = 0;
  const query = async (text: string, values: unknown[]) => {
    const { rows: plans } = await pool.query(`explain (analyze, format json) ${text}`, values);
    rows += rowsOf(plans[0]['QUERY PLAN'][0].Plan);
    return await pool.query(text, values);
  };
  return { db: { query } as unknown as Queryable, read: () => rows };
}

/** Reads a page; `rows`: how many rows all steps of its plan read. */
async function readPage(filter: Partial<IncidentFilter>, after?: KeysetPosition) {
  const { project } = fixture;
  const { db, read } = explainingDb();
  const page = await listIncidents(db, { projectId: project.projectId, ...filter }, { limit: LIMIT, after });
  return { page, rows: read() };
}

const filters: Record<string, () => Partial<IncidentFilter>> = {
  'of all monitors': () => ({}),
  'until a moment': () => ({ untilMs: EACH }),
  'of a monitor by its id': () => ({ monitorId: monitor.monitorId }),
  'of one monitor': () => ({ monitorId: monitor.monitorId, monitorKey: monitor.monitorKey }),
};
for (const [what, filterOf] of Object.entries(filters)) {
  it(`a page ${what} reads no more rows when it is deep or the table is long`, async () => {
    const first = await readPage(filterOf());
    expect(first.page).toHaveLength(LIMIT);
    expect(first.rows).toBeLessThan(10 * LIMIT);
    const deep = await readPage(filterOf(), { id: `inc_${(1_000).toString(16).padStart(12, '0')}` });
    expect(deep.page).toHaveLength(LIMIT);
    expect(deep.rows).toBeLessThan(10 * LIMIT);
  });
}

it('a page of a timeline reads that page alone, the first one and one in the midst of many entries', async () => {
  const { pool, project } = fixture;
  const of = {
    projectId: project.projectId,
    incidentId: `inc_${(1_000).toString(16).padStart(12, '0')}${'0'.repeat(20)}`,
  };
  await pool.query(
    `insert into timeline_entries (project_id, incident_id, entry_id, at, type)
     select $1, $2, gen_random_uuid(), to_timestamp(n), 'note' from generate_series(10, $3::integer) n`,
    [of.projectId, of.incidentId, EACH],
  );
  await pool.query('vacuum analyze timeline_entries');
  const { db, read } = explainingDb();
  const first = await listTimeline(db, of, { limit: LIMIT });
  expect(first.map(({ item }) => item.type)).toEqual(['opened', ...Array(LIMIT - 1).fill('note')]);
  expect(read()).toBeLessThan(10 * LIMIT);
  const { db: later, read: readLater } = explainingDb();
  const midst = { micros: 2_000_000_000, id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' };
  const next = await listTimeline(later, of, { limit: LIMIT, after: midst });
  expect(next.map(({ item }) => item.atMs)).toEqual(
    Array.from({ length: LIMIT }, (_, index) => 2_001_000 + index * 1_000),
  );
  expect(readLater()).toBeLessThan(10 * LIMIT);
});

it.each(['by its id', 'by its id and key'])(
  'the open incidents of a monitor, %s, are found without reading those that ended',
  async (how) => {
    const { monitorId, monitorKey } = monitor;
    const named = how === 'by its id' ? { monitorId } : { monitorId, monitorKey };
    const { page, rows } = await readPage({ ...named, state: 'open' });
    expect(page.map(({ item }) => item.incident.state)).toEqual(['open']);
    expect(rows).toBeLessThan(30);
    expect((await readPage({ ...named, state: 'recovered' })).page).toHaveLength(LIMIT);
  },
);

it('the list of a monitor has open incidents among those that ended, newest first, in pages', async () => {
  const seen: string[] = [];
  const states = new Set<string>();
  let after: KeysetPosition | undefined;
  do {
    const { page } = await readPage({ monitorId: monitor.monitorId, sinceMs: 4_900, untilMs: 5_100 }, after);
    seen.push(...page.map(({ item }) => item.incident.incidentId));
    for (const { item } of page) states.add(item.incident.state);
    after = page.length < LIMIT ? undefined : page.at(-1)?.position;
  } while (after);
  expect(seen).toHaveLength(100);
  expect(seen).toEqual(seen.toSorted().toReversed());
  expect([...states].toSorted()).toEqual(['open', 'recovered']);
});

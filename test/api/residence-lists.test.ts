// Lists over several databases: one order, one cursor, and a 503 that names the one that is away
// (docs/contract/tenancy.md).
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

async function make(jurisdiction: Jurisdiction, monitorId: string, name = monitorId) {
  const body = { monitorId, name, intervalSeconds: 3600, jurisdiction };
  await api.manage.expectSuccess('createMonitor', { body });
}

/** All items, page by page; `between` runs after each page. */
async function walk(query: Record<string, unknown>, between = async () => {}) {
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const { body } = await api.manage.expectSuccess('listMonitors', { query: { ...query, cursor } });
    found.push(...body.items.map(({ monitorId, jurisdiction }) => `${monitorId} ${jurisdiction}`));
    cursor = body.nextCursor;
    await between();
  } while (cursor !== undefined);
  return found;
}

describe('the list of monitors', () => {
  // Signs past U+FFFF come last in UTF-8, and not in JavaScript; the long name does not fit a cursor.
  const NAMES = ['a', 'B', 'c', '\u{ff21}', '\u{1d400}', `${'\u{1d400}'.repeat(159)}`, '0', 'zz'];

  beforeAll(async () => {
    for (const [index, name] of NAMES.entries()) {
      await make('eu', `id-${index}`, name);
      await make('unrestricted', `id-${index}`, name);
      await make('us', `us-${index}`, name);
    }
  });

  it.each([1, 2, 5, 200])('has the order of one database in pages of %i', async (limit) => {
    const { rows } = await api.pool.query<{ row: string }>(
      `with names as (select name_key, jurisdiction, monitor_id from monitors
         union all select name_key, 'eu', replace(monitor_id, 'us', 'id') from monitors where jurisdiction = 'us')
       select monitor_id || ' ' || jurisdiction as row from names order by name_key, monitor_id, jurisdiction`,
    );
    expect(await walk({ limit })).toEqual(rows.map(({ row }) => row));
  });

  it('with a jurisdiction it asks the one database', async () => {
    const found = await walk({ jurisdiction: 'eu', limit: 3 });
    expect(found).toHaveLength(NAMES.length);
    expect(found.every((row) => row.endsWith(' eu'))).toBe(true);
  });

  it('loses none that last, and repeats none, while others come and go in both databases', async () => {
    const lasting = (await walk({})).filter((row) => !row.startsWith('coming'));
    let count = 0;
    const come = async () => {
      count += 1;
      const jurisdiction = count % 2 === 0 ? 'eu' : 'us';
      await make(jurisdiction, `coming-${count}`, NAMES[count % NAMES.length]);
      if (count < 3) return;
      const params = { monitorId: `coming-${count - 2}` };
      const { etag: ifMatch } = await api.manage.expectSuccess('getMonitor', { params });
      await api.manage.expectSuccess('deleteMonitor', { params, ifMatch });
    };
    const found = await walk({ limit: 2 }, come);
    expect(count).toBeGreaterThan(8);
    expect(found.filter((row) => !row.startsWith('coming'))).toEqual(lasting);
    expect(new Set(found).size).toBe(found.length);
  });
});

describe.each(['default', 'eu'] as const)('while the database %s is away', (which) => {
  it('a list says so, and with another jurisdiction does without it', async () => {
    await api.proxies[which].refuse();
    const away = which === 'eu' ? 'eu' : 'unrestricted';
    const present = which === 'eu' ? 'us' : 'eu';
    for (const list of ['listMonitors', 'listIncidents', 'listDeliveries'] as const) {
      const { status, problem } = await api.manage.call(list);
      expect([list, status, problem?.jurisdiction]).toEqual([list, 503, away]);
    }
    for (const list of ['listMonitors', 'listIncidents', 'listDeliveries'] as const) {
      const answer = await api.manage.call(list, { query: { jurisdiction: present } });
      expect([list, answer.status]).toEqual([list, 200]);
    }
  });
});

// Beats where a jurisdiction has a database of its own: the database of the address takes them, and one that is away delays
// no beat and no deadline of another (docs/contract/beats.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

async function make(jurisdiction: Jurisdiction) {
  const body = { name: `m-${randomUUID()}`, intervalSeconds: 3600, jurisdiction };
  const { body: made } = await api.manage.expectSuccess('createMonitor', { body });
  const address = `${api.url}${new URL(made.publishUrl ?? '').pathname}`;
  return { monitorId: made.monitorId, beat: () => fetch(address, { method: 'POST' }) };
}

const countBeats = async (pool: Pool, monitorId: string) => {
  const { rows } = await pool.query<{ beats: number }>(
    'select count(*) as beats from observations join monitors using (project_id, monitor_key) where monitor_id = $1',
    [monitorId],
  );
  return rows[0]?.beats;
};
const decidedMs = async (pool: Pool) => {
  const { rows } = await pool.query<{ decided: number }>(
    'select max(decided_ms) as decided from service_clock',
  );
  return rows[0]?.decided ?? 0;
};

it('a beat is kept in the database of its address, known or not', async () => {
  const [here, there] = [await make('us'), await make('eu')];
  for (const { beat } of [here, there, here, there]) expect((await beat()).status).toBe(200);
  expect(await countBeats(api.pool, here.monitorId)).toBe(2);
  expect(await countBeats(api.eu, there.monitorId)).toBe(2);
  expect(await countBeats(api.pool, there.monitorId)).toBe(0);
  const unknown = await fetch(`${api.url}/ping/${randomUUID()}`);
  expect(unknown.status).toBe(404);
});

it('a call that waits for the first beat hears of it in whichever database', async () => {
  for (const jurisdiction of ['us', 'eu'] as const) {
    const { monitorId, beat } = await make(jurisdiction);
    const call = { params: { monitorId }, query: { waitSeconds: 30 } };
    const held = api.manage.expectSuccess('getFirstBeat', call);
    expect((await beat()).status).toBe(200);
    expect((await held).body.state).toBe('accepted');
  }
});

describe.each(['eu', 'default'] as const)('while the database %s hangs', (which) => {
  const [awayIn, presentIn] = which === 'eu' ? (['eu', 'us'] as const) : (['us', 'eu'] as const);

  it('beats and deadlines of the other go on, its own are refused and excused', async () => {
    const [away, known, fresh] = [await make(awayIn), await make(presentIn), await make(presentIn)];
    const [present, hung] = which === 'eu' ? [api.pool, api.eu] : [api.eu, api.pool];
    for (const { beat } of [away, known]) expect((await beat()).status).toBe(200);
    api.proxies[which].blackHole();
    const refused = away.beat();
    const unknown = fetch(`${api.url}/ping/${randomUUID()}`);
    // Both that were beaten before and those whose address is looked up now.
    for (const { beat } of [known, fresh, known, fresh]) expect((await beat()).status).toBe(200);
    // Neither beat is decided before the database is back: the clock of the other does not wait for them.
    const { rows } = await present.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now',
    );
    await waitFor(async () => (await decidedMs(present)) > Number(rows[0]?.now), {
      what: 'the clock goes on',
    });
    expect((await refused).status).toBe(503);
    // It may be an address of the database that is away.
    expect((await unknown).status).toBe(503);
    expect((await known.beat()).status).toBe(200);
    await api.restore();
    await waitFor(
      async () => {
        const { rows: live } = await hung.query(
          'select from monitor_live join monitors using (project_id, monitor_key) where monitor_id = $1 and excused_beats > 0',
          [away.monitorId],
        );
        return live.length === 1;
      },
      { what: 'the refused beat is excused' },
    );
    await waitFor(async () => (await away.beat()).status === 200, { what: 'its beats are taken again' });
  });
});

// Hundreds of incidents of one monitor, which the time opens, hold up no deadline of others: a batch takes some thousand.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openPingFixture, type PingFixture } from '../ingest/ping-fixture.ts';
import { dueAt, seedMonitors, seedProject } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: PingFixture;

beforeAll(async () => {
  fixture = await openPingFixture();
});
afterAll(() => fixture?.close());

const KEYS = Array.from({ length: 64 }, (_, place) => `k${place}`);
/** Of each monitor: two rules for each key. */
const INCIDENTS = 2 * KEYS.length;
const MONITORS = 50;

async function makeViolated(): Promise<void> {
  const rulePolicy = {
    version: 1,
    transientConsequence: 'none',
    sustainedConsequence: 'critical',
    sustainedCriterion: { kind: 'elapsed_time', seconds: 600 },
  };
  const rule = { minimum: 10, zeroExpectation: 'nonzero', rulePolicy };
  const monitors = await seedMonitors(fixture.pool, fixture.project, MONITORS, {
    configuration: {
      interval_seconds: 86_400,
      measurements: Object.fromEntries(KEYS.map((key) => [key, rule])),
    },
  });
  const body = JSON.stringify({ measurements: Object.fromEntries(KEYS.map((key) => [key, 0])) });
  for (const { address } of monitors) {
    const headers = { 'content-type': 'application/json' };
    const { status } = await fetch(`${fixture.url}/ping/${address}`, { method: 'POST', headers, body });
    expect(status).toBe(200);
  }
  // As if the beats had come eleven minutes ago.
  await fixture.pool.query(
    `update monitor_live set escalates_ms = escalates_ms - 660000, wake_ms = escalates_ms - 660000,
       rule_states = regexp_replace(rule_states, '"sinceMs":\\d+', '"sinceMs":' || (escalates_ms - 1260000), 'g')
     where escalates_ms is not null`,
  );
}

async function countIncidents(kind: string): Promise<number> {
  const text = 'select count(*)::int as count from incidents where kind = $1';
  return (await fixture.pool.query(text, [kind])).rows[0].count;
}

it('a batch opens some thousand incidents of rules, and every deadline; the next ones open the others', async () => {
  await makeViolated();
  await moveClock(fixture.pool);
  const { rows } = await fixture.pool.query('select min(decided_ms) as ms from service_clock');
  await seedMonitors(fixture.pool, await seedProject(fixture.pool), 20, dueAt(rows[0].ms));
  const sweep = makeSweep(fixture.pool);
  await sweep.run();
  expect(await countIncidents('missed_deadline')).toBe(20);
  const first = await countIncidents('rule_violation');
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(4_000);
  const all = await waitFor(async () => {
    await moveClock(fixture.pool);
    await drain(makeSweep(fixture.pool));
    const count = await countIncidents('rule_violation');
    return count >= MONITORS * INCIDENTS ? count : undefined;
  });
  expect(all).toBe(MONITORS * INCIDENTS);
  const { rows: left } = await fixture.pool.query(
    'select count(*)::int as count from monitor_live where escalates_ms is not null or open_incidents not in (1, $1)',
    [INCIDENTS],
  );
  expect(left).toEqual([{ count: 0 }]);
});

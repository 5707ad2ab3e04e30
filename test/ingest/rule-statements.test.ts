// What rules add to a batch of beats: the same statements for a hundred monitors as for two, one more where states are built,
// one more where incidents are open; and nothing for a monitor without rules.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runBeatTransaction } from '../../src/ingest/beat-transaction.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { isPlain } from '../../src/ingest/plain-beats.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let lane: Lane;
let directory: MonitorDirectory;
beforeAll(async () => {
  fixture = await openProjectFixture();
  directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  lane = new Lane(fixture.databaseUrl);
  await waitFor(() => lane.connect().then(() => true), { what: 'the lane is connected' });
});
afterAll(async () => {
  await lane?.close();
  await fixture?.close();
});

const MANY = 100;
const seed = (count: number, measurements: object = { rows: { minimum: 10, maximumAbsoluteDelta: 1000 } }) =>
  seedMonitors(fixture.pool, fixture.project, count, { configuration: { measurements } });

async function itemsOf(monitors: readonly SeedMonitor[], rows?: number) {
  const entries = await Promise.all(monitors.map(({ address }) => directory.load(address)));
  const measurements = rows === undefined ? undefined : { rows };
  return entries.flatMap((entry) =>
    entry ? [{ entry, beat: { kind: 'success' as const, measurements } }] : [],
  );
}

/** The statements of one batch with a beat of each monitor. */
async function statementsOf(monitors: readonly SeedMonitor[], rows: number): Promise<string[]> {
  const items = await itemsOf(monitors, rows);
  expect(items).toHaveLength(monitors.length);
  const sent: string[] = [];
  const results = await lane.write((connection, of) => {
    const counting = {
      query: (statement: string | { text: string }, ...more: []) => {
        sent.push(typeof statement === 'string' ? statement : statement.text);
        return connection.query(statement as string, ...more);
      },
    };
    return runBeatTransaction(counting as Queryable, items, { ...of, directory });
  });
  expect(results.every((result) => typeof result === 'object' && 'answer' in result)).toBe(true);
  return sent;
}

const pasts = (statements: readonly string[]) =>
  statements.filter((text) => text.includes("o.kind = 'success'")).length;

it('the states of many monitors are built by one statement more than they are kept by', async () => {
  const [few, many] = [await seed(2), await seed(MANY)];
  const first = await statementsOf(many, 50);
  expect([pasts(first), first.length]).toEqual([1, 5]);
  expect(await statementsOf(few, 50)).toEqual(first);
  const next = await statementsOf(many, 60);
  expect([pasts(next), next.length]).toEqual([0, 4]);
  const { rows } = await fixture.pool.query(
    'select count(rule_states)::int as kept from monitor_live where monitor_key = any($1)',
    [many.map(({ monitorKey }) => monitorKey)],
  );
  expect(rows).toEqual([{ kept: MANY }]);
});

it('incidents of many monitors open, get graver and end by as many statements as those of two', async () => {
  const rulePolicy = {
    version: 1,
    transientConsequence: 'info',
    sustainedConsequence: 'critical',
    sustainedCriterion: { kind: 'observations', observations: 2 },
  };
  const rules = { rows: { minimum: 10, rulePolicy } };
  const [few, many] = [await seed(2, rules), await seed(MANY, rules)];
  for (const [rows, state] of [
    [50, []],
    [1, ['open info']],
    [1, ['open critical']],
    [50, ['recovering critical']],
    [50, ['recovered critical']],
  ] as const) {
    expect((await statementsOf(many, rows)).length).toBe((await statementsOf(few, rows)).length);
    for (const monitor of [few[1], many[0], many.at(-1)] as SeedMonitor[]) {
      const incidents = await incidentsOf(fixture.pool, monitor);
      expect(incidents.map((incident) => `${incident.state} ${incident.severity}`)).toEqual(state);
    }
  }
});

it('a monitor without rules keeps no state, and its plain beats their one statement', async () => {
  const [free] = await seed(1, { rows: { unit: 'rows' } });
  const [item] = await itemsOf([free as SeedMonitor]);
  expect(item && isPlain(item)).toBe(true);
  expect(await statementsOf([free as SeedMonitor], 1)).toHaveLength(4);
  expect(await liveOf(fixture.pool, free as SeedMonitor)).toMatchObject({
    last_sequence: 1,
    rule_states: null,
    escalates_ms: null,
  });
});

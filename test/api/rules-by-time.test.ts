// Rules that time makes graver while no beat comes, and what people do meanwhile over HTTP: a refused beat stays a reason to
// wait for the next one (docs/contract/rules.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const MINUTE_MS = 60_000;

/** `rows` below 10 is critical once it has been so for ten minutes, and nothing before. */
const BY_TIME = {
  minimum: 10,
  rulePolicy: {
    version: 1,
    transientConsequence: 'none',
    sustainedConsequence: 'critical',
    sustainedCriterion: { kind: 'elapsed_time', seconds: 600 },
  },
};

/** `rows` below 10 is critical at the tenth beat in a row, whatever the time. */
const BY_COUNT = { minimum: 10, rulePolicy: { consecutiveObservations: 10, severity: 'critical' } };

/** A monitor whose newest beat violates its rule. */
async function makeViolated(rule: object = BY_TIME) {
  const { params, act, patch, measure } = await makeAddressed(api, {
    callback: { kind: 'disabled' },
    intervalSeconds: 86_400,
  });
  const ofMonitor = `monitor_key = (select monitor_key from monitors where monitor_id = '${params.monitorId}')`;
  const beat = async (rows: unknown) => (await measure({ rows })).status;
  await patch({ measurements: { rows: rule } });
  expect(await beat(3)).toBe(200);
  return {
    act,
    beat,
    patch,
    /** As if what has happened had happened so much earlier. */
    age: async (minutes: number) => {
      const ms = minutes * MINUTE_MS;
      await api.pool.query(
        `update monitor_live set last_beat_ms = last_beat_ms - $1, last_success_ms = last_success_ms - $1,
           anchor_ms = anchor_ms - $1, wake_ms = wake_ms - $1,
           escalates_ms = case when escalates_ms < 9007199254740991 then escalates_ms - $1 else escalates_ms end,
           rule_states = jsonb_set(rule_states::jsonb, '{rules,0,minimum,sinceMs}',
             to_jsonb((rule_states::jsonb #>> '{rules,0,minimum,sinceMs}')::bigint - $1))
         where ${ofMonitor}`,
        [ms],
      );
    },
    /** When sweepers have looked at what was due until now. */
    states: async () => {
      const nowMs = await readNow(api.pool);
      await waitFor(async () => {
        await moveClock(api.pool);
        const { rows } = await api.pool.query(
          'select min(decided_ms) as decided from service_clock where not ended',
        );
        return rows[0].decided >= nowMs;
      });
      await drain(makeSweep(api.pool));
      const { body } = await api.read.expectSuccess('listMonitorIncidents', { params });
      return body.items.map(({ state, severity }) => `${state} ${severity}`);
    },
  };
}

type Violated = Awaited<ReturnType<typeof makeViolated>>;

it('opens by the time alone, also after a change of another rule', async () => {
  const monitor = await makeViolated();
  await monitor.age(5);
  await monitor.patch({ measurements: { other: { minimum: 1 } } });
  expect(await monitor.states()).toEqual([]);
  await monitor.age(6);
  expect(await monitor.states()).toEqual(['open critical']);
});

it('opens nothing by the time after a refused beat, also where the rules are changed after it, and the next beat decides', async () => {
  const monitor = await makeViolated();
  await monitor.age(5);
  expect(await monitor.beat('many')).toBe(400);
  await monitor.patch({ measurements: { other: { minimum: 1 } } });
  expect(await monitor.states()).toEqual([]);
  await monitor.age(6);
  expect(await monitor.states()).toEqual([]);
  expect(await monitor.beat(4)).toBe(200);
  expect(await monitor.states()).toEqual(['open critical']);
});

it('opens by the time what a new policy counts from the first violation on', async () => {
  const monitor = await makeViolated(BY_COUNT);
  await monitor.age(5);
  await monitor.patch({ measurements: { rows: BY_TIME } });
  expect(await monitor.states()).toEqual([]);
  await monitor.age(6);
  expect(await monitor.states()).toEqual(['open critical']);
});

it.each([
  ['a refused beat', async ({ beat }: Violated) => expect(await beat('many')).toBe(400)],
  [
    'an archive in which a beat came',
    async ({ act, beat }: Violated) => {
      await act('archive');
      expect(await beat(20)).toBe(409);
      await act('restore');
    },
  ],
])(
  'opens nothing by the time of a policy that comes after %s, and the next beat decides',
  async (_, happen) => {
    const monitor = await makeViolated(BY_COUNT);
    await monitor.age(5);
    await happen(monitor);
    await monitor.patch({ measurements: { rows: BY_TIME } });
    expect(await monitor.states()).toEqual([]);
    await monitor.age(6);
    expect(await monitor.states()).toEqual([]);
    expect(await monitor.beat(4)).toBe(200);
    expect(await monitor.states()).toEqual(['open critical']);
  },
);

it.each([
  ['before it was restored', 11, 0],
  ['after it was restored', 5, 6],
])(
  'opens nothing by the time of a monitor that was archived meanwhile, whose time came %s',
  async (_, before, after) => {
    const monitor = await makeViolated();
    await monitor.act('archive');
    await monitor.age(before);
    // It would have conformed.
    expect(await monitor.beat(20)).toBe(409);
    await monitor.act('restore');
    expect(await monitor.states()).toEqual([]);
    await monitor.age(after);
    expect(await monitor.states()).toEqual([]);
    expect(await monitor.beat(4)).toBe(200);
    expect(await monitor.states()).toEqual(['open critical']);
  },
);

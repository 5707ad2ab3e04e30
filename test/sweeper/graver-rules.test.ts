// Rules that time makes graver while no beat comes (docs/contract/rules.md), on a real database.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { AFTER_A_BEAT } from '../../src/domain/monitor.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openPingFixture, type PingFixture } from '../ingest/ping-fixture.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { incidentsOf, liveOf, timelineOf } from '../support/stored-rows.ts';
import { drain, makeParts, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: PingFixture;

beforeAll(async () => {
  fixture = await openPingFixture();
});
afterAll(() => fixture?.close());
beforeEach(async () => {
  await fixture.pool.query('delete from service_outages');
  await moveClock(fixture.pool);
});

const MINUTE_MS = 60_000;
const DAY_SECONDS = 86_400;

/** `rows` below 10 is `before`, and critical once it has been so for ten minutes. */
const rulesOf = (before: string) => ({
  rows: {
    minimum: 10,
    rulePolicy: {
      version: 1,
      transientConsequence: before,
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'elapsed_time', seconds: 600 },
    },
  },
});

/** A monitor with a long interval whose newest beat violates its rule. */
async function makeViolated(before = 'warning'): Promise<SeedMonitor> {
  const monitor = await fixture.makeMonitor({
    configuration: { interval_seconds: DAY_SECONDS, measurements: rulesOf(before) },
  });
  await beat(monitor, 3);
  return monitor;
}

async function beat(monitor: SeedMonitor, rows: number): Promise<void> {
  expect(await send(monitor, rows)).toBe(200);
}

async function refusedBeat(monitor: SeedMonitor): Promise<void> {
  expect(await send(monitor, 'many')).toBe(400);
}

async function send(monitor: SeedMonitor, rows: unknown): Promise<number> {
  const answer = await fetch(`${fixture.url}/ping/${monitor.address}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ measurements: { rows } }),
  });
  return answer.status;
}

/** As if its beats had come so much earlier. */
async function age({ monitorKey }: SeedMonitor, minutes: number): Promise<void> {
  const ms = minutes * MINUTE_MS;
  await fixture.pool.query(
    `update monitor_live set escalates_ms = escalates_ms - $2, wake_ms = wake_ms - $2, last_beat_ms = last_beat_ms - $2,
       last_success_ms = last_success_ms - $2, anchor_ms = anchor_ms - $2 where monitor_key = $1`,
    [monitorKey, ms],
  );
  // Read and written by itself: an update on Citus takes no function of a column that may answer otherwise next time.
  const { rows } = await fixture.pool.query(
    `select jsonb_set(rule_states::jsonb, '{rules,0,minimum,sinceMs}',
       to_jsonb((rule_states::jsonb #>> '{rules,0,minimum,sinceMs}')::bigint - $2)) as states
     from monitor_live where monitor_key = $1`,
    [monitorKey, ms],
  );
  await fixture.pool.query('update monitor_live set rule_states = $2 where monitor_key = $1', [
    monitorKey,
    JSON.stringify(rows[0]?.states),
  ]);
}

const sweepOnce = () => drain(makeSweep(fixture.pool));

async function stateOf(monitor: SeedMonitor): Promise<string[]> {
  const incidents = await incidentsOf(fixture.pool, monitor);
  return incidents.map(({ state, severity }) => `${state} ${severity}`);
}

it('two sweepers escalate an incident once, when its time has come, and the next wake is that of the deadline', async () => {
  const monitor = await makeViolated();
  const live = await liveOf(fixture.pool, monitor);
  expect(live.escalates_ms).toBe(live.last_beat_ms + 10 * MINUTE_MS);
  expect(live.wake_ms).toBe(live.escalates_ms);
  await age(monitor, 9);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open warning']);
  await age(monitor, 1);
  await moveClock(fixture.pool);
  await Promise.all([sweepOnce(), sweepOnce()]);
  expect(await stateOf(monitor)).toEqual(['open critical']);
  const [incident] = await incidentsOf(fixture.pool, monitor);
  const escalated = (await timelineOf(fixture.pool, incident?.incident_id)).filter(
    ({ type }) => type === 'escalated',
  );
  expect(escalated).toMatchObject([{ detail: { from: 'warning', to: 'critical' } }]);
  const after = await liveOf(fixture.pool, monitor);
  expect(after.escalates_ms).toBeNull();
  expect(after.wake_ms).toBe(after.deadline_ms - MINUTE_MS);
});

it('an incident that nothing opens before opens by the time alone, and a conforming success ends it', async () => {
  const monitor = await makeViolated('none');
  expect(await stateOf(monitor)).toEqual([]);
  await age(monitor, 10);
  await moveClock(fixture.pool);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open critical']);
  expect((await liveOf(fixture.pool, monitor)).open_incidents).toBe(1);
  await beat(monitor, 20);
  expect(await stateOf(monitor)).toEqual(['recovered critical']);
});

it('nothing escalates past the service clock: a beat may be under way', async () => {
  const monitor = await makeViolated();
  await age(monitor, 10);
  const { escalates_ms: dueMs } = await liveOf(fixture.pool, monitor);
  await moveClock(fixture.pool, dueMs - 1);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open warning']);
  await moveClock(fixture.pool, dueMs);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open critical']);
});

it.each([
  [
    'an outage of the service',
    (nowMs: number) =>
      fixture.pool.query('insert into service_outages (from_ms, to_ms) values ($1, $2)', [
        nowMs - 5 * MINUTE_MS,
        nowMs - 4 * MINUTE_MS,
      ]),
  ],
  [
    'a beat that the service could not take',
    (nowMs: number, { monitorKey }: SeedMonitor) =>
      fixture.pool.query(
        'update monitor_live set excused_from_ms = $2, excused_ms = $2, excused_beats = 1 where monitor_key = $1',
        [monitorKey, nowMs - 5 * MINUTE_MS],
      ),
  ],
  ['a beat that was refused for its content', (_: number, monitor: SeedMonitor) => refusedBeat(monitor)],
  [
    'a beat that was refused while no deadline ran',
    async (_: number, monitor: SeedMonitor) => {
      await fixture.pool.query('update monitor_live set deadline_ms = null where monitor_key = $1', [
        monitor.monitorKey,
      ]);
      await refusedBeat(monitor);
    },
  ],
  ...[null, '{"of":', '[]'].map((text): [string, (_: number, monitor: SeedMonitor) => Promise<unknown>] => [
    `the loss of what was remembered, of which is left ${text}`,
    (_, { monitorKey }) =>
      fixture.pool.query('update monitor_live set rule_states = $2 where monitor_key = $1', [
        monitorKey,
        text,
      ]),
  ]),
])('%s since the first violation leaves the decision to the next beat', async (_, happen) => {
  const monitor = await makeViolated();
  await age(monitor, 10);
  // The beat itself, from which a lost state is built, came then too.
  await fixture.pool.query('update observations set received_at = $2 where monitor_key = $1', [
    monitor.monitorKey,
    new Date(Date.now() - 10 * MINUTE_MS),
  ]);
  await happen(await readNow(fixture.pool), monitor);
  await moveClock(fixture.pool);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open warning']);
  const {
    escalates_ms: nextMs,
    wake_ms: wakeMs,
    deadline_ms: deadlineMs,
  } = await liveOf(fixture.pool, monitor);
  expect([null, AFTER_A_BEAT]).toContain(nextMs);
  // It is woken for its deadline alone.
  expect(wakeMs).toBe(deadlineMs && deadlineMs - MINUTE_MS);
  await beat(monitor, 4);
  expect(await stateOf(monitor)).toEqual(['open critical']);
});

it('in maintenance nothing escalates; it does after the window', async () => {
  const monitor = await makeViolated();
  await age(monitor, 10);
  const setWindow = (end: string) =>
    fixture.pool.query(
      `update monitors set maintenance_starts_at = date_trunc('second', now()) - interval '1 hour',
         maintenance_ends_at = date_trunc('second', now()) + $2::interval where monitor_key = $1`,
      [monitor.monitorKey, end],
    );
  await setWindow('1 hour');
  await moveClock(fixture.pool);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open warning']);
  const live = await liveOf(fixture.pool, monitor);
  expect(live.escalates_ms).not.toBeNull();
  expect(live.wake_ms).toBeGreaterThan(live.escalates_ms);
  await setWindow('-1 minute');
  await fixture.pool.query('update monitor_live set wake_ms = escalates_ms where monitor_key = $1', [
    monitor.monitorKey,
  ]);
  await sweepOnce();
  expect(await stateOf(monitor)).toEqual(['open critical']);
});

it('a monitor whose rules are at fault holds up no other, is counted, and is tried again a minute later', async () => {
  const [faulty, whole] = [await makeViolated(), await makeViolated()];
  for (const monitor of [faulty, whole]) await age(monitor, 10);
  const setRules = (rules: object) =>
    fixture.pool.query('update monitors set measurements = $2 where monitor_key = $1', [
      faulty.monitorKey,
      rules,
    ]);
  await setRules({ rows: null });
  await moveClock(fixture.pool);
  const nowMs = await readNow(fixture.pool);
  const { metrics, faults } = makeParts();
  await drain(makeSweep(fixture.pool, { metrics, faults }));
  expect(await stateOf(whole)).toEqual(['open critical']);
  expect(await stateOf(faulty)).toEqual(['open warning']);
  expect((await metrics.monitorFaults.get()).values).toMatchObject([{ value: 1 }]);
  expect((await liveOf(fixture.pool, faulty)).wake_ms).toBeGreaterThanOrEqual(nowMs + MINUTE_MS);
  await setRules(rulesOf('warning'));
  await fixture.pool.query('update monitor_live set wake_ms = escalates_ms where monitor_key = $1', [
    faulty.monitorKey,
  ]);
  await sweepOnce();
  expect(await stateOf(faulty)).toEqual(['open critical']);
});

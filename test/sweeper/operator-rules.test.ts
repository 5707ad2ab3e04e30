// A rule that gets graver by time alone is judged up to the last sign of the operator that beats the monitor
// (docs/contract/rules.md): a conforming beat may be unsent.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { insertOperator, signOperator } from '../../src/store/upkeep/operator-signs.ts';
import { openPingFixture, type PingFixture } from '../ingest/ping-fixture.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { incidentsOf, liveOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

let fixture: PingFixture;
beforeAll(async () => {
  fixture = await openPingFixture();
});
afterAll(() => fixture?.close());

const MINUTE = 60_000;

/** `rows` below 10 is a warning, and critical once it has been so for ten minutes. A beat has violated it just now. */
async function makeViolated(operatorId: string): Promise<SeedMonitor> {
  const rulePolicy = {
    ...{ version: 1, transientConsequence: 'warning', sustainedConsequence: 'critical' },
    sustainedCriterion: { kind: 'elapsed_time', seconds: 600 },
  };
  const monitor = await fixture.makeMonitor({
    configuration: {
      ...{
        interval_seconds: 86_400,
        beaten_by: operatorId,
        measurements: { rows: { minimum: 10, rulePolicy } },
      },
    },
  });
  const answer = await fetch(`${fixture.url}/ping/${monitor.address}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ measurements: { rows: 3 } }),
  });
  expect(answer.status).toBe(200);
  return monitor;
}

/** As if ten minutes had passed since, in which the operator gave signs up to the last `silentMinutes`. */
async function passTime(
  { monitorKey }: SeedMonitor,
  operatorId: string,
  silentMinutes: number,
): Promise<void> {
  await fixture.pool.query(
    `update monitor_live set escalates_ms = escalates_ms - $2, wake_ms = 1,
       rule_states = jsonb_set(rule_states::jsonb, '{rules,0,minimum,sinceMs}',
         to_jsonb((rule_states::jsonb #>> '{rules,0,minimum,sinceMs}')::bigint - $2))::text
     where monitor_key = $1`,
    [monitorKey, 10 * MINUTE],
  );
  await fixture.pool.query('update operator_signs set seen_ms = seen_ms - $2 where operator_id = $1', [
    operatorId,
    silentMinutes * MINUTE,
  ]);
}

async function sweep() {
  await moveClock(fixture.pool);
  await drain(makeSweep(fixture.pool));
}
const severitiesOf = async (monitor: SeedMonitor) =>
  (await incidentsOf(fixture.pool, monitor)).map(({ severity }) => severity);

it('a rule gets graver by time while its operator gives signs', async () => {
  const operator = { organizationId: fixture.project.organizationId, operatorId: 'leads' };
  const monitor = await makeViolated(operator.operatorId);
  await insertOperator(fixture.pool, operator);
  await passTime(monitor, operator.operatorId, 0);
  await signOperator(fixture.pool, operator);
  await sweep();
  expect(await severitiesOf(monitor)).toEqual(['critical']);
});

it('it does not past the last sign, and not by a time in which the operator was away', async () => {
  const operator = { organizationId: fixture.project.organizationId, operatorId: 'dies' };
  const monitor = await makeViolated(operator.operatorId);
  await insertOperator(fixture.pool, operator);
  await passTime(monitor, operator.operatorId, 5);
  await sweep();
  expect(await severitiesOf(monitor)).toEqual(['warning']);
  const { wake_ms, escalates_ms } = await liveOf(fixture.pool, monitor);
  expect(wake_ms).toBeGreaterThan(escalates_ms);
  await signOperator(fixture.pool, operator);
  await fixture.pool.query('update monitor_live set wake_ms = 1 where monitor_key = $1', [
    monitor.monitorKey,
  ]);
  await sweep();
  expect(await severitiesOf(monitor)).toEqual(['warning']);
});

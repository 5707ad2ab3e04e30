// What `explain` and the status feed say of a monitor whose operator is silent, or was (docs/contract/monitors.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { at, MINUTE_MS, makeExplained } from './explain-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const withoutTimes = (words = '') => words.replaceAll(/(\d{4}-\d{2}-\d{2} )?\d{2}:\d{2}:\d{2} UTC/g, 'TIME');

async function makeBeaten() {
  const monitor = await makeExplained(api);
  const operatorId = `beatkeeper/${randomUUID()}`;
  await api.operator.expectSuccess('setMonitorBeatenBy', { params: monitor.params, body: { operatorId } });
  return {
    ...monitor,
    operatorId,
    sign: () => api.operator.expectSuccess('signOperator', { params: { operatorId } }),
    /** The last sign was so much earlier. */
    beSilent: async (ms: number) => {
      await api.pool.query('update operator_signs set seen_ms = seen_ms - $2 where operator_id = $1', [
        operatorId,
        ms,
      ]);
    },
    sweep: async () => {
      await api.pool.query(
        'update monitor_live l set wake_ms = least(wake_ms, 1) from monitors m where m.monitor_key = l.monitor_key and m.monitor_id = $1',
        [monitor.params.monitorId],
      );
      await moveClock(api.pool);
      await drain(makeSweep(api.pool));
    },
  };
}

it('while the operator gives signs nothing is said of it', async () => {
  const monitor = await makeBeaten();
  await monitor.beat();
  const { because, silence } = await monitor.explain();
  expect(withoutTimes(because)).toBe(
    'Up: the last beat came at TIME; the deadline is TIME (interval 1 h, grace 5 min).',
  );
  expect(silence.map(({ reason }) => reason)).toEqual(['binding_disabled']);
});

it('a monitor of a silent operator is not judged, and says so: before its deadline, and after it, where it is late and never down', async () => {
  const monitor = await makeBeaten();
  await monitor.beat();
  await monitor.beSilent(80 * MINUTE_MS);
  await monitor.age(10 * MINUTE_MS);
  const early = await monitor.explain();
  expect([early.health, withoutTimes(early.because)]).toEqual([
    'up',
    'Up: the last beat came at TIME; the deadline is TIME (interval 1 h, grace 5 min). No operator has reported since TIME: not judged.',
  ]);
  await monitor.age(65 * MINUTE_MS);
  await monitor.sweep();
  const late = await monitor.explain();
  expect([late.health, withoutTimes(late.because)]).toEqual([
    'late',
    'Late since TIME: the last beat came at TIME; the deadline is TIME (interval 1 h, grace 5 min). No operator has reported since TIME: not judged.',
  ]);
  expect(late.deadline.at).toBe((await monitor.status()).nextDeadlineAt);
  expect(withoutTimes(await monitor.because())).toBe(withoutTimes(late.because));
  const [said] = late.silence.filter(({ reason }) => reason === 'no_operator');
  expect(withoutTimes(said?.note)).toBe(
    'No operator has reported since TIME: nothing that falls due later is judged before it does.',
  );
});

it('its absence is a part of the deadline afterwards, and what was said before is still said of that moment', async () => {
  const monitor = await makeBeaten();
  await monitor.beat();
  await monitor.age(30 * MINUTE_MS);
  await monitor.beSilent(20 * MINUTE_MS);
  const then = await monitor.explain();
  await monitor.sign();
  await monitor.sweep();
  const after = await monitor.explain();
  const part = after.deadline.parts.find(({ kind }) => kind === 'service_outage');
  expect(withoutTimes(part?.note)).toBe('No operator led (TIME to TIME), and a beat may have been lost.');
  const sum = after.deadline.parts.reduce((ms, { seconds = 0 }) => ms + seconds * 1_000, 0);
  expect(at(Date.parse(after.deadline.parts[0]?.at ?? '') + sum)).toBe(after.deadline.at);
  expect(withoutTimes(after.because)).toMatch(
    /^Up: .*; the deadline is TIME \(interval 1 h, grace 5 min, .* while no operator led\)\.$/,
  );
  expect(withoutTimes(await monitor.because())).toBe(withoutTimes(after.because));
  const { because, health, deadline } = await monitor.explain({ at: then.at });
  expect({ because, health, deadline }).toEqual({
    ...{ because: then.because, health: then.health, deadline: then.deadline },
  });
});

it('of a monitor that is paused, or that no operator beats any more, nothing is said of it', async () => {
  const monitor = await makeBeaten();
  await monitor.beat();
  await monitor.beSilent(80 * MINUTE_MS);
  await monitor.act('pause');
  expect((await monitor.explain()).because).not.toContain('No operator');
  await monitor.act('resume');
  expect((await monitor.explain()).because).toContain('No operator');
  await api.member.expectSuccess('clearMonitorBeatenBy', { params: monitor.params });
  const { because, silence, deadline } = await monitor.explain();
  expect(because).not.toContain('No operator');
  expect(silence.map(({ reason }) => reason)).not.toContain('no_operator');
  // Its clock has started again.
  expect(deadline.parts[0]?.note).toMatch(/the monitor left its operator/);
});

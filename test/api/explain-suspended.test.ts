// What an explanation says while the organization is suspended, and after its return (docs/contract/organization.md).
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { endRests } from '../../src/sweeper/deadlines/end-rests.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeParts, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { at, MINUTE_MS, makeExplained, sentence } from './explain-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});
afterEach(async () => {
  await setState('active');
  // Other monitors have deadlines that passed before now.
  await api.pool.query('update organizations set returned_at = null');
});

const setState = async (state: string) =>
  await api.pool.query('update organizations set service_state = $2 where organization_id = $1', [
    api.organizationId,
    state,
  ]);

/** Its deadline passed eight minutes ago, and no sweeper has looked. */
async function makeSilent() {
  const monitor = await makeExplained(api, { intervalSeconds: 60, graceSeconds: 60 });
  await monitor.beat();
  await monitor.age(10 * MINUTE_MS);
  return monitor;
}

const RESTS = 'a deadline passed at TIME, while the organization was suspended: none runs before its return';
const restingDeadline = { parts: [{ kind: 'waiting', note: sentence(`A${RESTS.slice(1)}.`) }] };
const SUSPENDED =
  'The service of the organization is suspended since TIME: beats are refused, and nothing is judged.';
const withoutDays = (words: string) => words.replaceAll(/\d{4}-\d{2}-\d{2} /g, '');

it('a monitor that rests says since when, now and of a moment of its rest', async () => {
  const monitor = await makeSilent();
  await setState('canceled');
  await moveClock(api.pool);
  await drain(makeSweep(api.pool));
  expect(await monitor.explain()).toMatchObject({ health: 'up', deadline: restingDeadline });
  expect((await monitor.status()).nextDeadlineAt).toBeUndefined();
  expect((await monitor.explain({ at: at(Date.now() - 5 * MINUTE_MS) })).deadline).toEqual(restingDeadline);
  const before = await monitor.explain({ at: at(Date.now() - 9 * MINUTE_MS) });
  expect(before.deadline.at).toBeDefined();
  await setState('active');
  await endRests({ ...makeParts(), pool: api.pool, minimumIntervalMs: 60_000 });
  const { deadline } = await monitor.explain();
  expect(deadline.at).toBe((await monitor.status()).nextDeadlineAt);
  expect(deadline.parts[0]).toMatchObject({
    kind: 'refused_beat',
    note: sentence(
      'A beat was refused, the organization was active again after a suspension, or the monitor left its operator, at TIME.',
    ),
  });
});

it('the sentence says since when the service is suspended, and no word of it after the return', async () => {
  const monitor = await makeExplained(api);
  await monitor.beat();
  await setState('abuse_suspended');
  const { rows } = await api.pool.query<{ at: Date }>(
    'select suspended_at as at from organizations where organization_id = $1',
    [api.organizationId],
  );
  const { because } = await monitor.explain();
  expect(because).toEqual(
    sentence(
      String.raw`Up: the last beat came at TIME; the deadline is TIME \(interval 1 h, grace 5 min\)\. ${SUSPENDED}`,
    ),
  );
  const told = await monitor.because();
  expect(withoutDays(told)).toBe(withoutDays(because));
  const since = rows[0]?.at.toISOString().replace('T', ' ').slice(0, 19);
  expect(told).toContain(`is suspended since ${since} UTC: `);
  // It goes from one suspended state to another: the time stays.
  await setState('deleting');
  expect(await monitor.because()).toBe(told);
  await setState('active');
  expect((await monitor.explain()).because).not.toContain('suspended');
  expect(await monitor.because()).not.toContain('suspended');
});

it('a rest that no sweeper has seen is named, during the suspension and after it, in the feed too', async () => {
  const monitor = await makeSilent();
  const expectRest = async (more: string) => {
    const explained = await monitor.explain();
    expect(explained.deadline).toEqual(restingDeadline);
    expect(explained.because).toEqual(sentence(`Late: the last beat came at TIME; ${RESTS}\\.${more}`));
    expect(withoutDays(await monitor.because())).toBe(withoutDays(explained.because));
    // The same moment of the rest, and one before it.
    expect((await monitor.explain({ at: at(Date.now() - 5 * MINUTE_MS) })).deadline).toEqual(restingDeadline);
    expect((await monitor.explain({ at: at(Date.now() - 9 * MINUTE_MS) })).deadline.at).toBeDefined();
  };
  await setState('canceled');
  await expectRest(` ${SUSPENDED}`);
  await setState('active');
  await expectRest('');
  // A return that was before the deadline: that was missed in service.
  await api.pool.query(`update organizations set returned_at = returned_at - interval '1 hour'`);
  expect((await monitor.explain()).deadline.at).toBeDefined();
});

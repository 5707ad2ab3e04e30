// Which moments of the past can be explained, over HTTP (docs/contract/monitors.md).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { at, DAY_MS, MINUTE_MS, makeExplained } from './explain-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});
const make = (body: object = {}) => makeExplained(api, body);

describe('a moment in the past', () => {
  it('is not before the first beat that is kept, if there were earlier ones', async () => {
    const monitor = await make({ intervalSeconds: 4 * 86_400 });
    for (const ageMs of [2 * DAY_MS, DAY_MS, 0]) {
      await monitor.beat();
      await monitor.age(ageMs);
    }
    const then = { at: at(Date.now() - 2 * DAY_MS) };
    expect(await monitor.explain(then)).toMatchObject({ health: 'up', lastBeat: { sequence: 1 } });
    // As the sweeper did while the plan was a smaller one.
    const { rows } = await api.pool.query(
      `delete from observations where sequence = 1 and monitor_key =
         (select monitor_key from monitors where monitor_id = $1)
       returning (select received_at from observations o where o.monitor_key = observations.monitor_key
         and o.sequence = 2) as first`,
      [monitor.params.monitorId],
    );
    const first = rows[0]?.first.toISOString();
    const { status, problem } = await api.read.call('explainMonitor', {
      params: monitor.params,
      query: then,
    });
    expect(status).toBe(400);
    expect(problem?.fieldErrors).toEqual([
      {
        code: 'not_kept',
        path: 'at',
        message: `Must not be before ${first}: earlier beats are not kept any more.`,
      },
    ]);
    expect(await monitor.explain({ at: first })).toMatchObject({ lastBeat: { sequence: 2 } });
  });

  it('is not after a first kept beat that is a start, where a deleted one may have started the clock', async () => {
    const monitor = await make({ intervalSeconds: 4 * 86_400 });
    await monitor.beat();
    await monitor.age(2 * DAY_MS);
    await monitor.beat('/start');
    await monitor.age(DAY_MS);
    await monitor.beat();
    const then = { at: at(Date.now() - DAY_MS / 2) };
    const { params } = monitor;
    // The clock was that of the success, and the start moved nothing.
    const parts = [{ kind: 'last_beat', at: expect.any(String) }, { kind: 'interval' }, { kind: 'grace' }];
    const full = await monitor.explain(then);
    expect(full).toMatchObject({ lastBeat: { sequence: 2, kind: 'start' }, deadline: { parts } });
    expect(full.deadline.parts[0]?.note).toContain('The last success');
    const { rows } = await api.pool.query(
      `delete from observations where sequence = 1 and monitor_key =
         (select monitor_key from monitors where monitor_id = $1)
       returning (select received_at from observations o where o.monitor_key = observations.monitor_key
         and o.sequence = 3) as first`,
      [params.monitorId],
    );
    const first = rows[0]?.first.toISOString();
    const { status, problem } = await api.read.call('explainMonitor', { params, query: then });
    expect(status).toBe(400);
    expect(problem?.fieldErrors).toMatchObject([
      { code: 'not_kept', message: expect.stringContaining(first) },
    ]);
    expect((await monitor.explain({ at: first })).deadline.parts[0]?.note).toContain('The last success');
    // A first beat that is a start is the start of the clock.
    const fresh = await make({ intervalSeconds: 4 * 86_400 });
    await fresh.beat('/start');
    await fresh.age(DAY_MS);
    await fresh.beat();
    expect((await fresh.explain(then)).deadline.parts[0]?.note).toContain('a start');
  });

  it('a start after a deadline that was missed is the start of the clock, also where there was never a success', async () => {
    const monitor = await make({ intervalSeconds: 60, graceSeconds: 60 });
    await monitor.beat('/start');
    await monitor.age(10 * MINUTE_MS);
    await moveClock(api.pool);
    await drain(makeSweep(api.pool));
    await monitor.beat('/start');
    const { at: then, deadline } = await monitor.explain();
    expect(deadline.at).toBeDefined();
    await monitor.beat();
    expect(await monitor.explain({ at: then })).toMatchObject({
      health: 'down',
      deadline: { at: deadline.at },
    });
  });

  it('is at most 30 days ago, not before the creation and not in the future', async () => {
    const monitor = await make();
    const refusal = async (query: Record<string, unknown>) =>
      (await api.read.call('explainMonitor', { params: monitor.params, query })).problem;
    const fault = (code: string) => ({ status: 400, fieldErrors: [{ path: 'at', code }] });
    expect(await refusal({ at: at(Date.now() + DAY_MS) })).toMatchObject(fault('in_future'));
    expect(await refusal({ at: at(Date.now() - DAY_MS) })).toMatchObject(fault('before_creation'));
    await monitor.age(40 * DAY_MS);
    expect(await refusal({ at: at(Date.now() - 31 * DAY_MS) })).toMatchObject(fault('too_early'));
    expect((await monitor.explain({ at: at(Date.now() - 29 * DAY_MS) })).health).toBe('waiting');
    expect((await refusal({ at: 'noon' }))?.fieldErrors?.[0]?.path).toBe('at');
    expect((await refusal({ until: at(Date.now()) }))?.status).toBe(400);
  });

  it('a cadence that was learned then and is not kept is not guessed', async () => {
    const monitor = await make({ intervalSeconds: undefined });
    for (let beat = 0; beat < 5; beat += 1) await monitor.beat();
    await monitor.age(60 * MINUTE_MS);
    const early = at(Date.now() - 30 * MINUTE_MS);
    expect((await monitor.explain({ at: early })).deadline.parts[1]).toMatchObject({
      kind: 'learned',
      seconds: 60,
    });
    await monitor.beat();
    const { deadline } = await monitor.explain({ at: early });
    expect(deadline).toEqual({ parts: [{ kind: 'learned', note: expect.stringContaining('is not kept') }] });
  });
});

// Why a monitor is in its state, over HTTP (docs/contract/monitors.md). Histories are in explain-property.test.ts.
// Holds: explainMonitor.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endRests } from '../../src/sweeper/deadlines/end-rests.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeParts, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const at = (ms: number) => new Date(ms).toISOString();

async function make(body: object = {}) {
  const { params, address, act } = await makeAddressed(api, { callback: { kind: 'disabled' }, ...body });
  return {
    params,
    act,
    beat: async (suffix = '') => {
      expect((await fetch(`${address}${suffix}`, { method: 'POST' })).status).toBe(200);
    },
    explain: async (query: { at?: string } = {}) =>
      (await api.read.expectSuccess('explainMonitor', { params, query })).body,
    status: async () => (await api.read.expectSuccess('getMonitor', { params })).body.status,
    /** Everything of the monitor happened so much earlier. */
    age: async (ms: number) => {
      await api.pool.query(
        `with m as (select monitor_key from monitors where monitor_id = $1),
           a as (update monitors set created_at = created_at - v.past from (select $2 * interval '1 ms' as past) v
             where monitor_id = $1),
           o as (update observations set received_at = received_at - $2 * interval '1 ms'
             where monitor_key in (table m)),
           c as (update monitor_changes set occurred_at = occurred_at - $2 * interval '1 ms'
             where monitor_key in (table m))
         update monitor_live set anchor_ms = anchor_ms - $2::bigint, deadline_ms = deadline_ms - $2::bigint,
           wake_ms = wake_ms - $2::bigint, first_beat_ms = first_beat_ms - $2::bigint,
           last_beat_ms = last_beat_ms - $2::bigint, last_success_ms = last_success_ms - $2::bigint
         where monitor_key in (table m)`,
        [params.monitorId, ms],
      );
    },
  };
}

const TIME = String.raw`(\d{4}-\d{2}-\d{2} )?\d{2}:\d{2}:\d{2} UTC`;
const sentence = (text: string) => expect.stringMatching(new RegExp(`^${text.replaceAll('TIME', TIME)}$`));

describe('why a monitor is in its state', () => {
  it('one that waits says that no deadline runs, or when the first beat is due', async () => {
    const waiting = await make();
    expect(await waiting.explain()).toMatchObject({
      ...waiting.params,
      health: 'waiting',
      because: 'Waiting for the first beat: no deadline runs before the first beat.',
      deadline: { parts: [{ kind: 'waiting' }] },
      rules: [],
      silence: [{ reason: 'binding_disabled' }],
    });
    const started = await make({ awaitFirstBeat: false });
    const { because, deadline } = await started.explain();
    expect(because).toEqual(
      sentence(String.raw`Waiting for the first beat: the deadline is TIME \(interval 1 h, grace 5 min\)\.`),
    );
    expect(deadline.at).toBe((await started.status()).nextDeadlineAt);
    expect(deadline.parts[0]).toMatchObject({
      kind: 'clock_start',
      note: sentence('The clock started with the creation at TIME\\.'),
    });
  });

  it('one that is up names its last beat and what makes the deadline, which is that of its status', async () => {
    const monitor = await make();
    await monitor.beat();
    const { status, explained } = { status: await monitor.status(), explained: await monitor.explain() };
    expect(explained).toMatchObject({
      health: 'up',
      because: sentence(
        String.raw`Up: the last beat came at TIME; the deadline is TIME \(interval 1 h, grace 5 min\)\.`,
      ),
      lastBeat: { receivedAt: status.lastBeatAt, sequence: 1, kind: 'success' },
      deadline: {
        at: status.nextDeadlineAt,
        parts: [
          { kind: 'last_beat', at: status.lastBeatAt, note: sentence('The last success came at TIME\\.') },
          { kind: 'interval', seconds: 3600, note: 'The interval is 1 h.' },
          { kind: 'grace', seconds: 300, note: 'The grace is 5 min.' },
        ],
      },
    });
  });

  it('one that was silent says since when, and which deadline was missed; an hour ago it was up', async () => {
    const monitor = await make();
    await monitor.beat();
    await monitor.age(90 * MINUTE_MS);
    expect((await monitor.explain()).health).toBe('late');
    await moveClock(api.pool);
    await drain(makeSweep(api.pool));
    const now = await monitor.explain();
    expect(now).toMatchObject({
      health: 'down',
      because: sentence(
        String.raw`Down since TIME: no beat since TIME; the deadline was TIME \(interval 1 h, grace 5 min\)\.`,
      ),
      deadline: {
        parts: [{ kind: 'waiting', note: 'The deadline was missed: none runs until the next beat.' }],
      },
    });
    expect(now.deadline.at).toBeUndefined();
    const then = await monitor.explain({ at: at(Date.parse(now.at) - 60 * MINUTE_MS) });
    expect(then).toMatchObject({ health: 'up', lastBeat: { sequence: 1, kind: 'success' } });
    expect(Date.parse(then.deadline.at ?? '')).toBe(
      Date.parse(then.lastBeat?.receivedAt ?? '') + 65 * MINUTE_MS,
    );
    const before = await monitor.explain({ at: at(Date.parse(now.at) - 20 * MINUTE_MS) });
    expect(before).toMatchObject({
      health: 'late',
      because: sentence(
        String.raw`Late since TIME: the last beat came at TIME; the deadline is TIME \(.*\)\.`,
      ),
    });
  });

  it('one whose job failed says so, and one that was paused by whom', async () => {
    const monitor = await make();
    await monitor.beat('/3');
    expect((await monitor.explain()).because).toEqual(
      sentence('Down since TIME: The job reported a failure with exit status 3\\.'),
    );
    await monitor.act('pause');
    const paused = await monitor.explain();
    expect(paused).toMatchObject({
      health: 'paused',
      because: sentence('Paused since TIME by .+: beats are recorded, and no deadline runs\\.'),
      deadline: { parts: [{ kind: 'paused' }] },
    });
    expect(paused.silence.map(({ reason }) => reason)).toContain('paused');
  });

  it('a maintenance window moves the deadline, and silences until its end', async () => {
    const monitor = await make();
    await monitor.beat();
    const now = Date.now();
    const window = { startsAt: at(now - MINUTE_MS), endsAt: at(now + 120 * MINUTE_MS), reason: 'New disks' };
    await monitor.act('enter_maintenance', window);
    const explained = await monitor.explain();
    expect(explained).toMatchObject({
      health: 'maintenance',
      because: sentence(String.raw`In maintenance until TIME \(New disks\): nothing opens before\.`),
      deadline: { at: window.endsAt, parts: [{}, {}, {}, { kind: 'maintenance' }] },
    });
    expect(explained.silence).toContainEqual({
      reason: 'maintenance',
      until: window.endsAt,
      note: 'A maintenance window runs: nothing opens.',
    });
  });

  it('a beat that was refused for its content is named as the start of the clock', async () => {
    const monitor = await make();
    await monitor.beat();
    const { publishUrl = '' } = (await api.manage.expectSuccess('getMonitor', { params: monitor.params }))
      .body;
    const headers = { 'content-type': 'application/json' };
    const address = `${api.url}${new URL(publishUrl).pathname}`;
    await fetch(address, { method: 'POST', headers, body: '{"exitStatus":-1}' });
    const { deadline } = await monitor.explain();
    expect(deadline.at).toBe((await monitor.status()).nextDeadlineAt);
    expect(deadline.parts[0]).toMatchObject({
      kind: 'refused_beat',
      note: sentence(
        'A beat was refused, or the organization was active again after a suspension, at TIME\\.',
      ),
    });
  });

  it('one that rests says since when, now and of a moment of its rest', async () => {
    const monitor = await make({ intervalSeconds: 60, graceSeconds: 60 });
    await monitor.beat();
    await monitor.age(10 * MINUTE_MS);
    const setState = (state: string) =>
      api.pool.query('update organizations set service_state = $2 where organization_id = $1', [
        api.organizationId,
        state,
      ]);
    await setState('canceled');
    try {
      await moveClock(api.pool);
      await drain(makeSweep(api.pool));
      const note = sentence(
        'A deadline passed at TIME, while the organization was suspended: none runs before its return.',
      );
      const deadline = { parts: [{ kind: 'waiting', note }] };
      expect(await monitor.explain()).toMatchObject({ health: 'up', deadline });
      expect((await monitor.status()).nextDeadlineAt).toBeUndefined();
      expect((await monitor.explain({ at: at(Date.now() - 5 * MINUTE_MS) })).deadline).toEqual(deadline);
      const before = await monitor.explain({ at: at(Date.now() - 9 * MINUTE_MS) });
      expect(before.deadline.at).toBeDefined();
    } finally {
      await setState('active');
    }
    await endRests({ ...makeParts(), pool: api.pool, minimumIntervalMs: 60_000 });
    const { deadline } = await monitor.explain();
    expect(deadline.at).toBe((await monitor.status()).nextDeadlineAt);
    expect(deadline.parts[0]).toMatchObject({
      kind: 'refused_beat',
      note: sentence('A beat was refused, or the organization was active again after a suspension, at TIME.'),
    });
  });

  it('says why alerts go nowhere', async () => {
    const reasons = async (monitor: { explain: () => Promise<{ silence: { reason: string }[] }> }) =>
      (await monitor.explain()).silence.map(({ reason }) => reason);
    expect(await reasons(await make({ callback: { kind: 'named', alias: 'nobody' } }))).toEqual([
      'alias_not_found',
    ]);
    const unset = await make({ callback: { kind: 'organization_default' } });
    expect(await reasons(unset)).toEqual(['no_organization_default']);
    await unset.beat('/fail');
    const [, notSent] = (await unset.explain()).silence;
    expect(notSent).toMatchObject({
      reason: 'no_organization_default',
      note: sentence('incident\\.opened of inc_\\w+ was not sent at TIME\\.'),
    });
  });
});

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

it('a reader may ask, another organization and an unknown id get 404', async () => {
  const { params } = await make();
  for (const client of [api.read, api.viewer, api.member, api.operator]) {
    expect((await client.call('explainMonitor', { params })).status).toBe(200);
  }
  expect((await api.other.manage.call('explainMonitor', { params })).status).toBe(404);
  expect((await api.other.owner.call('explainMonitor', { params })).status).toBe(404);
  expect((await api.read.call('explainMonitor', { params: { monitorId: 'none' } })).status).toBe(404);
});

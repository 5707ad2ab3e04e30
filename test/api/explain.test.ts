// Why a monitor is in its state, over HTTP (docs/contract/monitors.md). Histories are in explain-property.test.ts.
// Holds: explainMonitor.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { at, MINUTE_MS, makeExplained, sentence } from './explain-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});
const make = (body: object = {}) => makeExplained(api, body);

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
      sentence(
        String.raw`Waiting for the first beat: the deadline is TIME \(from TIME: interval 1 h, grace 5 min\)\.`,
      ),
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
        'A beat was refused, the organization was active again after a suspension, or the monitor left its operator, at TIME\\.',
      ),
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

it('a reader may ask, another organization and an unknown id get 404', async () => {
  const { params } = await make();
  for (const client of [api.read, api.viewer, api.member, api.operator]) {
    expect((await client.call('explainMonitor', { params })).status).toBe(200);
  }
  expect((await api.other.manage.call('explainMonitor', { params })).status).toBe(404);
  expect((await api.other.owner.call('explainMonitor', { params })).status).toBe(404);
  expect((await api.read.call('explainMonitor', { params: { monitorId: 'none' } })).status).toBe(404);
});

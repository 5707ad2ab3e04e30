// Replaying a draft of a rule over its frozen window: by the rule that the monitor has and by the proposed one
// (docs/contract/rules.md).
// Holds: replayDraft.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DraftedMonitor, makeDrafted } from './draft-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const replayOf = ({ params }: DraftedMonitor, draftId: string) =>
  api.read.call('replayDraft', { params, body: { draftId } });
const replay = async (monitor: DraftedMonitor, draftId: string) => {
  const { body, problem } = await replayOf(monitor, draftId);
  expect(problem).toBeUndefined();
  return body;
};

/** What opened each, and what became of it. */
const shortOf = (
  incidents: { rule: string; openSequence?: number; state: string; violationCount: number }[],
) =>
  incidents.map(({ rule, openSequence, state, violationCount }) => [
    rule,
    openSequence,
    state,
    violationCount,
  ]);

/** A monitor with these numbers of rows, a success each. */
async function withRows(rows: readonly number[], body: object = {}): Promise<DraftedMonitor> {
  const monitor = await makeDrafted(api, body);
  for (const count of rows) await monitor.beat({ rows: count });
  return monitor;
}

describe('the replay of a draft', () => {
  it('shows what the current rule and the proposed one open over the window, and the difference', async () => {
    const monitor = await withRows([5, 30, 12, 3]);
    await monitor.patch({ measurements: { rows: { minimum: 10 }, other: { minimum: 1_000 } } });
    const draft = await monitor.create({
      minimum: 4,
      maximum: 20,
      rulePolicy: { consecutiveObservations: 1, severity: 'critical' },
    });
    const { window, current, proposed, difference, draft: shown } = await replay(monitor, draft.id);
    expect(shown).toEqual(draft);
    expect(window).toEqual({
      observationCount: 4,
      successCount: 4,
      fromSequence: 1,
      throughSequence: 4,
      fromAt: expect.any(String),
      throughAt: expect.any(String),
    });
    expect(Date.parse(window.fromAt ?? '')).toBeLessThanOrEqual(Date.parse(window.throughAt ?? ''));
    expect([shortOf(current.incidents), current.flaggedCount, current.refusedCount]).toEqual([
      [
        ['minimum', 1, 'recovered', 1],
        ['minimum', 4, 'open', 1],
      ],
      2,
      0,
    ]);
    expect([shortOf(proposed.incidents), proposed.flaggedCount]).toEqual([
      [
        ['maximum', 2, 'recovered', 1],
        ['minimum', 4, 'open', 1],
      ],
      2,
    ]);
    expect(proposed.incidents[0]).toEqual({
      measurement: 'rows',
      rule: 'maximum',
      state: 'recovered',
      severity: 'critical',
      openedAt: expect.any(String),
      openSequence: 2,
      lastSequence: 3,
      recoveringAt: expect.any(String),
      recoveredAt: expect.any(String),
      violationCount: 1,
      summary: expect.stringContaining('30'),
    });
    expect([shortOf(difference.added), shortOf(difference.removed), difference.unchanged]).toEqual([
      [['maximum', 2, 'recovered', 1]],
      [['minimum', 1, 'recovered', 1]],
      1,
    ]);
  });

  it('records nothing and opens nothing', async () => {
    const monitor = await withRows([1]);
    const draft = await monitor.create({ minimum: 10 });
    const rowsOf = async () =>
      (
        await api.pool.query(
          'select * from monitor_live l left join incidents using (project_id, monitor_key)',
        )
      ).rows;
    const before = await rowsOf();
    expect((await replay(monitor, draft.id)).proposed.incidents).toHaveLength(1);
    expect(await rowsOf()).toEqual(before);
    expect(await monitor.read(draft.id)).toEqual(draft);
  });

  it('reads exactly the window of the creation while beats go on, also of an updated and a closed draft', async () => {
    const monitor = await withRows([1, 20]);
    const draft = await monitor.create({ minimum: 10 });
    const before = await replay(monitor, draft.id);
    await monitor.insertBeats(300);
    await monitor.beat({ rows: 0 });
    expect(await replay(monitor, draft.id)).toEqual(before);
    await monitor.update(draft.id, { minimum: 30 });
    const updated = await replay(monitor, draft.id);
    expect([updated.window, shortOf(updated.proposed.incidents)]).toEqual([
      before.window,
      [['minimum', 1, 'open', 2]],
    ]);
    await monitor.cancel(draft.id);
    expect((await replay(monitor, draft.id)).proposed).toEqual(updated.proposed);
    const later = await monitor.create({ minimum: 10 });
    const { window, proposed } = await replay(monitor, later.id);
    expect([window.observationCount, window.fromSequence, window.throughSequence]).toEqual([200, 104, 303]);
    expect(shortOf(proposed.incidents)).toEqual([['minimum', 303, 'open', 1]]);
  });

  it('judges successes alone, and both rules begin with nothing before the window', async () => {
    const monitor = await makeDrafted(api);
    await monitor.beat({ rows: 1 }, '/fail');
    await monitor.beat({ rows: 100 });
    await monitor.beat({ rows: 1 }, '/log');
    await monitor.beat({ rows: 103 });
    await monitor.beat({ rows: 120 });
    const draft = await monitor.create({ maximumAbsoluteDelta: 10 });
    const { window, proposed, current } = await replay(monitor, draft.id);
    expect([window.observationCount, window.successCount]).toEqual([5, 3]);
    expect(shortOf(proposed.incidents)).toEqual([['maximumAbsoluteDelta', 5, 'open', 1]]);
    expect(current).toEqual({ incidents: [], flaggedCount: 0, refusedCount: 0 });
  });

  it('counts the successes that the definition would have refused, and judges none of them', async () => {
    const monitor = await withRows([5, 0.5, 7]);
    await monitor.beat({});
    const draft = await monitor.create({ metricType: 'count', missingPolicy: 'reject', minimum: 6 });
    const { proposed } = await replay(monitor, draft.id);
    expect([proposed.refusedCount, proposed.flaggedCount]).toEqual([2, 1]);
    expect(shortOf(proposed.incidents)).toEqual([['minimum', 1, 'recovered', 1]]);
  });

  it('raises severities by the time that passed until the window was frozen', async () => {
    const monitor = await withRows([1]);
    await api.pool.query(
      `update observations set received_at = received_at - interval '10 s' where ${monitor.ofMonitor}`,
    );
    const sustained = (seconds: number) => ({
      minimum: 10,
      rulePolicy: {
        version: 1,
        transientConsequence: 'info',
        sustainedConsequence: 'critical',
        sustainedCriterion: { kind: 'elapsed_time', seconds },
      },
    });
    const [short, long] = [await monitor.create(sustained(5)), await monitor.create(sustained(3_600))];
    const severities = await Promise.all(
      [short, long].map(async ({ id }) => (await replay(monitor, id)).proposed.incidents[0]?.severity),
    );
    expect(severities).toEqual(['critical', 'info']);
  });

  it('raises no severity by the time after a success that the definition would have refused, as live beats do', async () => {
    const monitor = await withRows([1, -1, 1]);
    await api.pool.query(
      `update observations set received_at = received_at - (3 - sequence) * interval '10 s' where ${monitor.ofMonitor}`,
    );
    const draft = await monitor.create({
      metricType: 'count',
      minimum: 10,
      rulePolicy: {
        version: 1,
        transientConsequence: 'info',
        sustainedConsequence: 'critical',
        sustainedCriterion: { kind: 'elapsed_time', seconds: 15 },
      },
    });
    const opened = async (until: number) => {
      const [first] = (
        await api.pool.query(
          `select floor(extract(epoch from received_at) * 1000)::bigint as ms from observations where ${monitor.ofMonitor} and sequence = 1`,
        )
      ).rows;
      const at = (ms: number) => new Date(first.ms + ms).toISOString();
      const { body } = await api.read.call('replayDraft', {
        params: monitor.params,
        body: { draftId: draft.id, since: at(0), until: at(until) },
      });
      return [body.proposed.refusedCount, body.proposed.incidents.map(({ severity }) => severity)];
    };
    expect(await opened(19_000)).toEqual([1, ['info']]);
    // The next violation decides.
    expect((await replay(monitor, draft.id)).proposed.incidents).toMatchObject([{ severity: 'critical' }]);
  });

  it('of a monitor without beats has an empty window', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const empty = { incidents: [], flaggedCount: 0, refusedCount: 0 };
    expect(await replay(monitor, draft.id)).toEqual({
      draft,
      window: { observationCount: 0, successCount: 0 },
      current: empty,
      proposed: empty,
      difference: { added: [], removed: [], unchanged: 0 },
    });
  });
});

describe('a replay that is refused', () => {
  const gone = {
    status: 409,
    code: 'service.conflict',
    detail: expect.stringContaining('not kept any more'),
  };

  it('is a 409 where retention has deleted observations of the window', async () => {
    const monitor = await withRows([1, 2]);
    const draft = await monitor.create();
    await api.pool.query(`delete from observations where ${monitor.ofMonitor} and sequence = 1`);
    expect((await replayOf(monitor, draft.id)).problem).toMatchObject(gone);
    expect((await replay(monitor, (await monitor.create()).id)).window.observationCount).toBe(1);
  });

  it('is a 409 where the plan does not keep observations of the window any more, before they are deleted', async () => {
    const monitor = await withRows([1]);
    const draft = await monitor.create();
    const lastSequence = 'update monitor_live set last_sequence = last_sequence + $1';
    // The plan smart keeps 500,000 of a monitor.
    await api.pool.query(`${lastSequence} where ${monitor.ofMonitor}`, [500_000]);
    expect((await replayOf(monitor, draft.id)).status).toBe(200);
    const setPlan = (plan: string) =>
      api.pool.query('update organizations set plan = $2 where organization_id = $1', [
        api.organizationId,
        plan,
      ]);
    await setPlan('smart');
    try {
      const answer = await waitFor(async () => {
        const one = await replayOf(monitor, draft.id);
        return one.status === 409 ? one : undefined;
      });
      expect(answer.problem).toMatchObject(gone);
    } finally {
      await setPlan('scale');
    }
  });

  it('a draft of another monitor is 404', async () => {
    const [one, other] = [await makeDrafted(api), await makeDrafted(api)];
    const draft = await other.create();
    expect((await replayOf(one, draft.id)).status).toBe(404);
  });

  it('an applied draft shows no difference to the rule that it has become', async () => {
    const monitor = await withRows([1]);
    const draft = await monitor.create({ minimum: 10 });
    await monitor.apply(draft.id);
    const { difference } = await replay(monitor, draft.id);
    expect(difference).toEqual({ added: [], removed: [], unchanged: 1 });
  });
});

describe('the replay of a span', () => {
  const at = (ms: number) => new Date(ms).toISOString();
  const replaySpan = (monitor: DraftedMonitor, draftId: string, span: object) =>
    api.read.call('replayDraft', { params: monitor.params, body: { draftId, ...span } });

  /** A success each ten seconds up to a minute ago, by twos above and below 10. */
  async function withHistory(count: number) {
    const monitor = await makeDrafted(api);
    const endMs = Date.now() - 60_000;
    await monitor.insertBeats(count);
    await api.pool.query(
      `update observations set received_at = date_trunc('milliseconds', to_timestamp($1 / 1000.0) - ($2 - sequence) * interval '10 s'),
         measurements = jsonb_build_object('rows', case when sequence % 4 < 2 then 5 else 15 end)
       where ${monitor.ofMonitor}`,
      [endMs, count],
    );
    return { monitor, atOf: (sequence: number) => endMs - (count - sequence) * 10_000 };
  }

  it('judges what was received from since on and before until, in place of the frozen window', async () => {
    const { monitor, atOf } = await withHistory(400);
    const draft = await monitor.create({ minimum: 10 });
    const span = { since: at(atOf(101)), until: at(atOf(141)) };
    const { body } = await replaySpan(monitor, draft.id, span);
    expect(body.window).toEqual({
      observationCount: 40,
      successCount: 40,
      fromSequence: 101,
      throughSequence: 140,
      fromAt: span.since,
      throughAt: at(atOf(140)),
    });
    expect([body.proposed.flaggedCount, body.proposed.incidents.length]).toEqual([20, 11]);
    expect(body.proposed.incidents[0]).toMatchObject({ openSequence: 101, state: 'recovered' });
    // Without until it goes on to now, with the beats that came after the window was frozen.
    await monitor.beat({ rows: 1 });
    const open = await replaySpan(monitor, draft.id, { since: at(atOf(1)) });
    expect([open.body.window.fromSequence, open.body.window.throughSequence]).toEqual([1, 401]);
  });

  it('of more observations than are in memory at once gives what one replay of all of them gives', async () => {
    const { monitor, atOf } = await withHistory(3_000);
    await api.pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind)
       select project_id, monitor_key, 3000 + n, received_at + n * interval '1 ms', 'log'
       from observations, generate_series(1, 9000) n where ${monitor.ofMonitor} and sequence = 3000`,
    );
    await api.pool.query(`update monitor_live set last_sequence = 12000 where ${monitor.ofMonitor}`);
    const draft = await monitor.create({ minimum: 10 });
    const { body } = await replaySpan(monitor, draft.id, { since: at(atOf(1)) });
    expect(body.window).toMatchObject({
      observationCount: 12_000,
      successCount: 3_000,
      fromSequence: 1,
      throughSequence: 12_000,
    });
    // Of each four in a row two are below, sequence 1 is one of them.
    expect([body.proposed.flaggedCount, body.proposed.incidents.length]).toEqual([1_500, 751]);
  });

  it('is a 409 where a rule would have opened more incidents than an answer shows', async () => {
    const { monitor, atOf } = await withHistory(4_100);
    const draft = await monitor.create({ minimum: 10 });
    const { problem } = await replaySpan(monitor, draft.id, { since: at(atOf(1)) });
    expect(problem).toMatchObject({
      code: 'service.conflict',
      detail: expect.stringContaining('more than 1000 incidents'),
    });
  });

  it.each([
    ['until without since', { until: at(0) }, 'since', 'required'],
    ['until before since', { since: at(1), until: at(0) }, 'until', 'ends_before_start'],
    ['more than 30 days', { since: at(0), until: at(30 * 86_400_000 + 1) }, 'until', 'too_long'],
  ])('refuses %s', async (_, span, path, code) => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const { problem } = await replaySpan(monitor, draft.id, span);
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path, code }] });
  });
});

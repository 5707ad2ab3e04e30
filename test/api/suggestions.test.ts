// A rule that a monitor's history suggests, and what it makes of that history (docs/contract/rules.md).
// Holds: suggestRule.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findPlan } from '../../src/domain/plan.ts';
import { suggestRule } from '../../src/service/monitors/suggest-rule.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DraftedMonitor, makeDrafted } from './draft-fixture.ts';

const HOUR_MS = 3_600_000;

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture({ config: { plans: { free: { detectorFeatures: ['minimum'] } } } });
});
afterAll(async () => {
  await api?.close();
});

const suggestOf = ({ params }: DraftedMonitor, change: object = {}) =>
  api.read.call('suggestRule', { params, body: { measurementKey: 'rows', ...change } });
const suggest = async (monitor: DraftedMonitor, change: object = {}) => {
  const { body, problem } = await suggestOf(monitor, change);
  expect(problem).toBeUndefined();
  return body;
};

/** A monitor with a success each hour up to an hour ago, whose measurements these are. */
async function withHistory(history: readonly (Record<string, number> | undefined)[], stepMs = HOUR_MS) {
  const monitor = await makeDrafted(api);
  const startMs = Date.now() - history.length * stepMs;
  await api.pool.query(
    `with live as (
       update monitor_live set last_sequence = $1 where ${monitor.ofMonitor} returning project_id, monitor_key)
     insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
     select project_id, monitor_key, n, date_trunc('milliseconds', to_timestamp(($2 + n * $3) / 1000.0)),
       case when item = 'null' then 'log' else 'success' end, nullif(item, 'null')
     from live, jsonb_array_elements($4::jsonb) with ordinality as items(item, n)`,
    [
      history.length,
      startMs - stepMs,
      stepMs,
      JSON.stringify(history.map((measurements) => measurements ?? null)),
    ],
  );
  return monitor;
}

const rowsOf = (rows: readonly number[]) => rows.map((count) => ({ rows: count }));
/** 900 to 1,100 by tens, over and over. */
const steady = (count: number) => Array.from({ length: count }, (_, index) => 900 + 10 * (index % 21));

describe('a suggestion', () => {
  it('has bounds from the quantiles, the values they come from, the share and the incidents of the past', async () => {
    const rows = steady(210);
    rows[100] = 0;
    const monitor = await withHistory([...rowsOf(rows), undefined]);
    const { window, ...suggestion } = await suggest(monitor);
    expect(suggestion).toEqual({
      measurementKey: 'rows',
      definition: {
        metricType: 'gauge',
        missingPolicy: 'skip',
        transform: 'none',
        mode: 'heartbeat',
        minimum: 840,
        maximum: 1_160,
        ruleAction: { mode: 'active', version: 1 },
        rulePolicy: { consecutiveObservations: 1, severity: 'warning' },
      },
      values: { count: 210, smallest: 0, low: 900, median: 1_000, high: 1_100, largest: 1_100 },
      proposed: {
        incidents: [expect.objectContaining({ rule: 'minimum', openSequence: 101, state: 'recovered' })],
        flaggedCount: 1,
        refusedCount: 0,
      },
      flaggedShare: 1 / 210,
    });
    expect(window).toEqual({
      observationCount: 211,
      successCount: 210,
      fromSequence: 1,
      throughSequence: 211,
      fromAt: expect.any(String),
      throughAt: expect.any(String),
    });
    expect(Date.parse(window.throughAt ?? '') - Date.parse(window.fromAt ?? '')).toBe(210 * HOUR_MS);
  });

  it('is the proposal of a draft as it is, whose replay shows the same incidents', async () => {
    const rows = steady(600);
    rows.fill(1, 50, 53);
    rows.fill(5_000, 300, 302);
    rows[500] = 5_000;
    const monitor = await withHistory(rowsOf(rows));
    const { measurementKey, definition, window, proposed } = await suggest(monitor);
    const proposal = { measurementKey, definition };
    const { params } = monitor;
    const draft = (await api.manage.expectSuccess('createDraft', { params, body: { proposal } })).body;
    expect(draft.proposal).toEqual(proposal);
    const span = { draftId: draft.id, since: window.fromAt };
    const replay = (await api.read.expectSuccess('replayDraft', { params, body: span })).body;
    expect(replay.window).toEqual(window);
    expect(replay.proposed).toEqual(proposed);
    expect([proposed.flaggedCount, proposed.incidents.length]).toEqual([6, 3]);
  });

  it('waits for so many violations in a row as leave one incident a week, and for 3 at most', async () => {
    const policyOf = async (small: readonly number[], large: readonly number[] = []) => {
      const rows = steady(400);
      for (const index of small) rows[index] = 0;
      for (const index of large) rows[index] = 9_999;
      // A minute apart: one week has begun.
      const monitor = await withHistory(rowsOf(rows), 60_000);
      const { definition, proposed } = await suggest(monitor);
      return [definition.rulePolicy, proposed.incidents.length];
    };
    const policy = (consecutiveObservations: number) => ({ consecutiveObservations, severity: 'warning' });
    expect(await policyOf([10])).toEqual([policy(1), 1]);
    expect(await policyOf([10, 100])).toEqual([policy(2), 0]);
    expect(await policyOf([10, 50, 51])).toEqual([policy(2), 1]);
    expect(await policyOf([10, 11, 12], [50, 51])).toEqual([policy(3), 1]);
    expect(await policyOf([10, 11, 12], [50, 51, 52])).toEqual([policy(3), 2]);
  });

  it('takes the increases of a counter', async () => {
    const raws: number[] = [];
    for (let total = 7; raws.length < 40; total += 100 + raws.length) raws.push(total);
    const monitor = await withHistory(rowsOf(raws));
    const { definition, values } = await suggest(monitor, { metricType: 'counter' });
    // From 101 to 139: 9.5 further out, by ones and tens.
    expect(values).toEqual({ count: 39, smallest: 101, low: 101, median: 120, high: 139, largest: 139 });
    expect(definition).toMatchObject({ metricType: 'counter', minimum: 90, maximum: 150 });
  });

  it('keeps what decides the values of the rule that the monitor has, and nothing else of it', async () => {
    const monitor = await withHistory([...rowsOf(steady(30)), {}]);
    await monitor.patch({
      measurements: {
        rows: {
          metricType: 'count',
          missingPolicy: 'zero',
          unit: 'rows',
          transform: 'log1p',
          maximumAbsoluteDelta: 1,
          ruleAction: { mode: 'inactive', version: 1 },
        },
      },
    });
    const { definition, values } = await suggest(monitor);
    expect(definition).toEqual({
      metricType: 'count',
      missingPolicy: 'zero',
      unit: 'rows',
      transform: 'none',
      mode: 'heartbeat',
      maximum: expect.any(Number),
      ruleAction: { mode: 'active', version: 1 },
      rulePolicy: { consecutiveObservations: 1, severity: 'warning' },
    });
    expect([values.count, values.smallest]).toEqual([31, 0]);
    const stated = await suggest(monitor, { metricType: 'size' });
    expect(stated.definition).toMatchObject({ metricType: 'size', missingPolicy: 'zero', unit: 'rows' });
  });

  it('counts the successes that its form would have refused, and takes no value of them', async () => {
    const monitor = await withHistory(rowsOf([...steady(30), -1, 0.5]));
    const { values, proposed } = await suggest(monitor, { metricType: 'count' });
    expect([values.count, values.smallest, proposed.refusedCount]).toEqual([30, 900, 2]);
  });

  it('changes nothing', async () => {
    const monitor = await withHistory(rowsOf([...steady(30), 0]));
    const stored = async () =>
      (
        await api.pool.query(
          `select l.*, m.*, (select count(*) from incidents), (select count(*) from drafts)
           from monitor_live l join monitors m using (project_id, monitor_key) where ${monitor.ofMonitor}`,
        )
      ).rows;
    const before = await stored();
    expect(await suggest(monitor)).toEqual(await suggest(monitor));
    expect(await stored()).toEqual(before);
  });
});

describe('the history of a suggestion', () => {
  it('is of the last 30 days, and no more than the newest 50,000 observations in pages', async () => {
    const monitor = await withHistory(rowsOf(steady(30)));
    await api.pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
       select project_id, monitor_key, 30 + n, o.received_at + n * interval '1 ms', 'log', null
       from observations o, generate_series(1, 50000) n where ${monitor.ofMonitor} and sequence = 30`,
    );
    const lastSequence = 'update monitor_live set last_sequence = $1';
    await api.pool.query(`${lastSequence} where ${monitor.ofMonitor}`, [50_005]);
    const some = await suggest(monitor);
    // Of 50,005 the newest 50,000 begin with the sixth.
    expect([some.window.fromSequence, some.window.throughSequence, some.values.count]).toEqual([
      6, 50_005, 25,
    ]);
    expect([some.window.observationCount, some.window.successCount]).toEqual([50_000, 25]);
    await api.pool.query(`${lastSequence} where ${monitor.ofMonitor}`, [50_030]);
    expect((await suggestOf(monitor)).problem).toMatchObject({
      detail: expect.stringContaining('has 0 values'),
    });
  });

  it('leaves out what is older than 30 days, although its day is kept', async () => {
    const monitor = await withHistory(rowsOf(steady(30)));
    await api.pool.query(
      `update observations set received_at = received_at - interval '30 d' where ${monitor.ofMonitor} and sequence <= 5`,
    );
    const { window, values } = await suggest(monitor);
    expect([window.fromSequence, values.count]).toEqual([6, 25]);
  });

  it.each([
    [[], '0 values'],
    [[1_000], '1 value '],
    [steady(19), '19 values'],
  ])('with fewer than 20 values is a 409 that says how many there are', async (rows, count) => {
    const monitor = await withHistory([...rowsOf(rows), {}, { other: 1 }]);
    const { problem } = await suggestOf(monitor);
    expect(problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
      detail: expect.stringContaining(`has ${count}`),
    });
    expect(problem?.detail).toContain('needs 20');
  });
});

describe('a suggestion is refused', () => {
  it('where the plan does not have a bound of it', async () => {
    const monitor = await withHistory(rowsOf(steady(30)));
    const setPlan = (plan: string) =>
      api.pool.query('update organizations set plan = $2 where organization_id = $1', [
        api.organizationId,
        plan,
      ]);
    await setPlan('free');
    try {
      const { problem } = await waitFor(async () => {
        const answer = await suggestOf(monitor);
        return answer.status === 403 ? answer : undefined;
      });
      expect(problem).toMatchObject({
        code: 'service.plan_limit_reached',
        limit: { dimension: 'detector_feature' },
        fieldErrors: [{ path: 'measurementKey', code: 'plan_limit' }],
      });
    } finally {
      await setPlan('scale');
    }
  });

  it('where nobody waits for it any more, before it reads on', async () => {
    const monitor = await withHistory(rowsOf(steady(30)));
    const request = {
      name: { projectId: api.projectId, monitorId: monitor.params.monitorId },
      measurementKey: 'rows',
    };
    const suggestFor = (signal: AbortSignal) => suggestRule(api.pool, { findPlan }, { ...request, signal });
    await expect(suggestFor(AbortSignal.abort())).rejects.toMatchObject({ code: 'temporarily_unavailable' });
    expect((await suggestFor(new AbortController().signal)).values.count).toBe(30);
  });

  it.each([
    ['a key that is none', { measurementKey: 'Rows' }, 'measurementKey'],
    ['another type', { metricType: 'histogram' }, 'metricType'],
  ])('for %s', async (_, change, path) => {
    const monitor = await makeDrafted(api);
    expect((await suggestOf(monitor, change)).problem).toMatchObject({
      status: 400,
      fieldErrors: [{ path }],
    });
  });

  it('for a monitor that there is not', async () => {
    const params = { monitorId: 'absent' };
    const { status } = await api.read.call('suggestRule', { params, body: { measurementKey: 'rows' } });
    expect(status).toBe(404);
  });
});

// The catalogue of an installation as its callers meet it: limits, rule features, and which observations are shown.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeExportCursor } from '../../src/api/paging/export-cursor.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { ofType, readExport, recordsOf } from '../support/export-reader.ts';
import { beginSumsAt, DAY_MS, daysAgo, insertBeats, sumUpUntil } from '../support/past-beats.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture({
    plan: 'free',
    config: {
      plans: {
        free: {
          name: 'Tiny',
          version: 4,
          activeMonitors: 4,
          beatsPerMinute: 1,
          callbackEndpoints: 1,
          apiRequestsPerMinute: 5_000,
          observationRetentionSeconds: 2 * 86_400,
          storedObservations: 5,
        },
      },
    },
  });
});
afterAll(async () => {
  await api?.close();
});

async function make() {
  const { body, etag } = await api.manage.expectSuccess('createMonitor', {
    body: { name: 'Job', intervalSeconds: 300 },
  });
  const { rows } = await api.pool.query<{ monitor_key: string }>(
    'select monitor_key from monitors where project_id = $1 and monitor_id = $2',
    [api.projectId, body.monitorId],
  );
  const ref = { projectId: api.projectId, monitorKey: rows[0]?.monitor_key ?? '' };
  const address = `${api.url}${new URL(body.publishUrl ?? '').pathname}`;
  return { params: { monitorId: body.monitorId }, address, etag, ref };
}
const setPlan = (plan: string) =>
  api.pool.query('update organizations set plan = $2 where organization_id = $1', [api.organizationId, plan]);
const patch = async (params: { monitorId: string }, measurements: object) => {
  const { etag: ifMatch } = await api.manage.expectSuccess('getMonitor', { params });
  return await api.manage.call('updateMonitor', { params, ifMatch, body: { patch: { measurements } } });
};
const TINY = { id: 'free', name: 'Tiny', version: 4 };

describe('the limits of the installation', () => {
  it('hold for beats, and for each counted dimension when calls come at once', async () => {
    const { address } = await make();
    expect((await fetch(address, { method: 'POST' })).status).toBe(200);
    const second = await fetch(address, { method: 'POST', headers: { accept: 'application/json' } });
    expect(second.status).toBe(429);
    expect(await second.json()).toMatchObject({ limit: { dimension: 'beat_cadence', limit: 1, plan: TINY } });

    const body = { kind: 'webhook', url: 'http://127.0.0.1:9/' };
    const endpoints = await Promise.all(
      ['a', 'b', 'c'].map((alias) => api.manage.call('createCallback', { body: { ...body, alias } })),
    );
    expect(endpoints.map(({ status }) => status).sort()).toEqual([201, 403, 403]);
    const monitors = await Promise.all(
      Array.from({ length: 6 }, () =>
        api.manage.call('createMonitor', { body: { name: 'Job', intervalSeconds: 300 } }),
      ),
    );
    expect(monitors.map(({ status }) => status).sort()).toEqual([201, 201, 201, 403, 403, 403]);
    const refused = monitors.find(({ status }) => status === 403);
    expect(refused?.problem?.limit).toMatchObject({ dimension: 'active_monitors', limit: 4, plan: TINY });
    await api.pool.query('update organizations set active_monitors = 0');

    const page = await (await fetch(`${api.url}/docs/limits`)).text();
    expect(page).toContain('Tiny');
    expect(page).toContain('<td>5,000</td>');
  });
});

describe('rule features', () => {
  it('a plan decides which rules may be set; what a larger plan has left stays and may be sent back', async () => {
    const { params } = await make();
    expect((await patch(params, { rows: { minimum: 1, zeroExpectation: 'nonzero' } })).status).toBe(200);
    const sustained = {
      version: 1,
      transientConsequence: 'none',
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'observations', observations: 3 },
    };
    const refusals: [object, string][] = [
      [{ rows: { maximumAbsoluteDelta: 3 } }, 'patch.measurements.rows.maximumAbsoluteDelta'],
      [{ size: { ratio: { denominator: 'rows', minimum: 1 } } }, 'patch.measurements.size.ratio'],
      [{ rows: { rulePolicy: sustained } }, 'patch.measurements.rows.rulePolicy'],
    ];
    for (const [rules, path] of refusals) {
      const { status, problem } = await patch(params, rules);
      expect(status).toBe(403);
      expect(problem).toMatchObject({
        code: 'service.plan_limit_reached',
        limit: { dimension: 'detector_feature', plan: TINY, remediation: 'remove_feature' },
        fieldErrors: [{ code: 'plan_limit', path }],
      });
    }
    await setPlan('builder');
    await waitFor(async () => (await patch(params, { rows: { maximumAbsoluteDelta: 3 } })).status === 200);
    expect((await patch(params, { rows: { rulePolicy: sustained } })).status).toBe(403);
    await setPlan('free');
    expect((await patch(params, { rows: { maximumAbsoluteDelta: 3, minimum: 2 } })).status).toBe(200);
    expect((await patch(params, { rows: { maximumAbsoluteDelta: 4 } })).status).toBe(403);
    expect((await patch(params, { rows: { maximumAbsoluteDelta: null } })).status).toBe(200);
  });
});

describe('observations', () => {
  const iso = (ms: number) => new Date(ms).toISOString();
  const sequencesOf = async (params: { monitorId: string }) =>
    (await api.read.expectSuccess('listObservations', { params })).body.items.map(({ sequence }) => sequence);
  const exportedOf = async ({ monitorId }: { monitorId: string }, cursor?: string) => {
    const query: Record<string, string> = cursor === undefined ? {} : { cursor };
    const records = recordsOf(await readExport({ url: api.url, token: api.tokens.read, query }));
    const sequences = ofType(records, 'observation')
      .filter((one) => one.monitorId === monitorId)
      .map(({ sequence }) => sequence);
    return { sequences, from: ofType(records, 'export.started')[0]?.observationsFrom };
  };

  it('older ones than the plan keeps are not shown, and fine buckets not answered', async () => {
    const { params, ref } = await make();
    await insertBeats(
      api.pool,
      ref,
      [4, 3, 1.5, 0.5].map((days) => ({ atMs: daysAgo(0) - days * DAY_MS })),
    );
    await beginSumsAt(api.pool, daysAgo(4));
    await sumUpUntil(api.pool, daysAgo(0));
    expect(await sequencesOf(params)).toEqual([4, 3]);
    expect(await exportedOf(params)).toEqual({ sequences: [3, 4], from: iso(daysAgo(2)) });
    // One that began while a larger plan kept all of them.
    const { organizationId, projectId } = api;
    const what = { scope: { organizationId, projectId }, format: 'ndjson', includesBuckets: false } as const;
    const span = { startedMs: Date.now(), observationsFromMs: daysAgo(30) };
    const monitorHomes = [{ name: 'default', span }];
    const cursor = encodeExportCursor({ ...what, monitorHomes }, { kind: 'observation' });
    expect((await exportedOf(params, cursor)).sequences).toEqual([3, 4]);
    await setPlan('scale');
    expect((await exportedOf(params, cursor)).sequences).toEqual([1, 2, 3, 4]);
    await setPlan('free');
    const since = { params, query: { since: iso(daysAgo(3)), until: iso(daysAgo(2)), bucketSeconds: 300 } };
    const refusal = { code: 'service.plan_limit_reached', status: 403 };
    const retention = { dimension: 'observation_retention_seconds', limit: 2 * 86_400, plan: TINY };
    const refused = (await api.read.call('readSeries', since)).problem;
    expect(refused).toMatchObject({
      ...{ ...refusal, limit: { ...retention, remediation: 'upgrade_plan' } },
      fieldErrors: [{ path: 'bucketSeconds', code: 'plan_limit' }],
    });
    expect(refused?.limit?.attempted).toBeGreaterThanOrEqual(3 * 86_400);
    expect(refused?.limit?.attempted).toBeLessThan(4 * 86_400 + 60);
    // No plan keeps those.
    const older = { ...since.query, since: iso(daysAgo(31)), until: iso(daysAgo(30)) };
    expect((await api.read.call('readSeries', { params, query: older })).problem?.fieldErrors).toMatchObject([
      { path: 'bucketSeconds', code: 'too_fine' },
    ]);
    const hours = { params, query: { ...since.query, bucketSeconds: 3600 } };
    const { body } = await api.read.expectSuccess('readSeries', hours);
    expect(body.items.filter(({ count }) => count > 0)).toHaveLength(1);
    await api.pool.query("update monitors set created_at = created_at - interval '40 days'");
    const explain = async (days: number) =>
      (await api.read.call('explainMonitor', { params, query: { at: iso(Date.now() - days * DAY_MS) } }))
        .problem;
    expect(await explain(3)).toMatchObject({
      ...{ ...refusal, limit: retention },
      fieldErrors: [{ path: 'at', code: 'plan_limit' }],
    });
    expect((await explain(31))?.fieldErrors).toMatchObject([
      { path: 'at', code: 'too_early', message: 'Must be at most 2 days ago.' },
    ]);
  });

  it('more than the plan keeps of a monitor are not shown', async () => {
    const { params, ref } = await make();
    const beats = Array.from({ length: 9 }, (_, index) => ({ atMs: daysAgo(1) + index * 1_800_000 }));
    await insertBeats(api.pool, ref, beats);
    await api.pool.query('update monitor_live set last_sequence = 9 where monitor_key = $1', [
      ref.monitorKey,
    ]);
    expect(await sequencesOf(params)).toEqual([9, 8, 7, 6, 5]);
    expect((await exportedOf(params)).sequences).toEqual([5, 6, 7, 8, 9]);
    // The fifth one came two hours after the start of the day.
    const series = (hour: number) =>
      api.read.call('readSeries', {
        params,
        query: { since: iso(daysAgo(1) + hour * 3_600_000), until: iso(daysAgo(0)), bucketSeconds: 1800 },
      });
    expect((await series(1)).problem).toMatchObject({
      ...{ status: 403, code: 'service.plan_limit_reached' },
      limit: { dimension: 'stored_observations', limit: 5, plan: TINY, remediation: 'upgrade_plan' },
    });
    expect((await series(2)).status).toBe(200);
  });
});

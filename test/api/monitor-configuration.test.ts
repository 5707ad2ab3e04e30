// The configuration of a monitor, field by field: stated by a patch, read back, and reset by null (docs/contract/monitors.md,
// docs/contract/rules.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const patch = async (monitorId: string, ifMatch: string, change: Record<string, unknown>) =>
  await api.manage.expectSuccess('updateMonitor', {
    params: { monitorId },
    ifMatch,
    body: { patch: change },
  });

it('every field of a configuration is read back as it was stated, and null goes back to its default', async () => {
  const { body, etag } = await api.manage.expectSuccess('createMonitor', { body: { name: 'Backup' } });
  const stated = {
    name: 'Other',
    description: 'Line one\nLine two',
    labels: { team: 'data' },
    intervalSeconds: 31_536_000,
    graceSeconds: 31_536_000,
    awaitFirstBeat: false,
    maxRuntimeSeconds: 604_800,
    recoveryBeats: 10,
    missedBeatsToOpen: 10,
  };
  const changed = await patch(body.monitorId, etag, stated);
  expect(changed.body).toMatchObject(stated);
  const { name: _, ...optional } = stated;
  const nulls = Object.fromEntries(Object.keys(optional).map((field) => [field, null]));
  const { body: reset } = await patch(body.monitorId, changed.etag, nulls);
  expect(reset).toMatchObject({
    name: 'Other',
    labels: {},
    graceSeconds: 300,
    awaitFirstBeat: true,
    recoveryBeats: 1,
    missedBeatsToOpen: 1,
  });
  for (const field of ['description', 'intervalSeconds', 'maxRuntimeSeconds'])
    expect(reset).not.toHaveProperty(field);
});

it('every field of a rule is read back as it was stated, and what is removed is gone', async () => {
  const { body, etag } = await api.manage.expectSuccess('createMonitor', { body: { name: 'Backup' } });
  const rule = {
    metricType: 'size',
    minimum: -1.5,
    maximum: 2.5,
    maximumAbsoluteDelta: 0,
    maximumPercentageDelta: 12.5,
    zeroExpectation: 'nonzero',
    ratio: { denominator: 'all', minimum: 0.5, maximum: 1 },
    missingPolicy: 'reject',
    transform: 'log1p',
    unit: 'MiB',
    ruleAction: { mode: 'inactive', version: 1 },
    rulePolicy: {
      version: 1,
      transientConsequence: 'info',
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'elapsed_time', seconds: 604_800 },
    },
    mode: 'heartbeat',
  };
  const set = await patch(body.monitorId, etag, { measurements: { rows: rule } });
  expect(set.body.measurements).toEqual({ rows: rule });
  const read = await api.read.expectSuccess('getMonitor', { params: { monitorId: body.monitorId } });
  expect(read.body.measurements).toEqual({ rows: rule });
  const policy = { consecutiveObservations: 10, severity: 'info' };
  const removed = await patch(body.monitorId, set.etag, {
    measurements: {
      rows: {
        disabledRules: ['minimum', 'maximumAbsoluteDelta'],
        maximumPercentageDelta: null,
        zeroExpectation: null,
        ratio: null,
        missingPolicy: null,
        transform: null,
        unit: null,
        ruleAction: null,
        rulePolicy: policy,
      },
    },
  });
  expect(removed.body.measurements).toEqual({
    rows: {
      metricType: 'size',
      maximum: 2.5,
      missingPolicy: 'skip',
      transform: 'none',
      ruleAction: { mode: 'active', version: 1 },
      rulePolicy: policy,
      mode: 'heartbeat',
    },
  });
});

// Applying a draft of a rule: the configuration and the draft change in one transaction (docs/contract/rules.md).
// Holds: applyDraft.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { makeDrafted } from './draft-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const rulesOf = async (params: { monitorId: string }) => {
  const { body } = await api.read.expectSuccess('getMonitor', { params });
  return { version: body.configurationVersion, measurements: body.measurements };
};

describe('an applied draft', () => {
  it('replaces the whole rule of its measurement under a new version, with a change record', async () => {
    const monitor = await makeDrafted(api);
    await monitor.patch({ measurements: { rows: { minimum: 1, unit: 'rows' }, bytes: { maximum: 9 } } });
    const draft = await monitor.create({ maximum: 20 });
    expect(draft.baseConfigurationVersion).toBe(2);
    const { body } = await monitor.apply(draft.id, { expectedConfigurationVersion: 2 });
    expect(body).toEqual({
      ...draft,
      status: 'applied',
      appliedConfigurationVersion: 3,
      closedAt: expect.any(String),
    });
    expect(await monitor.read(draft.id)).toEqual(body);
    const { version, measurements } = await rulesOf(monitor.params);
    expect([version, measurements.rows, measurements.bytes]).toEqual([
      3,
      draft.proposal.definition,
      expect.objectContaining({ maximum: 9 }),
    ]);
    const { body: changes } = await api.read.expectSuccess('listMonitorChanges', { params: monitor.params });
    expect(changes.items[0]).toMatchObject({ kind: 'configuration', configurationVersion: 3 });
  });

  it('takes no change any more', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    await monitor.apply(draft.id);
    for (const answer of [
      await monitor.apply(draft.id, { expectedConfigurationVersion: 2 }),
      await monitor.cancel(draft.id),
      await monitor.update(draft.id, {}),
    ])
      expect(answer.problem).toMatchObject({ status: 409, code: 'service.draft_closed' });
    expect((await rulesOf(monitor.params)).version).toBe(2);
  });

  it('of the rule that the monitor has keeps the version of the monitor', async () => {
    const monitor = await makeDrafted(api);
    await monitor.patch({ measurements: { rows: { minimum: 10 } } });
    const draft = await monitor.create({ minimum: 10 });
    const { body } = await monitor.apply(draft.id, { expectedConfigurationVersion: 2 });
    expect([body.status, body.appliedConfigurationVersion]).toEqual(['applied', 2]);
  });
});

describe('an applied draft and the incident of its rule', () => {
  /** A monitor whose value 3 has opened an incident by its minimum of 10, and what has become of it. */
  async function withIncident() {
    const monitor = await makeDrafted(api);
    await monitor.patch({ measurements: { rows: { minimum: 10 } } });
    await monitor.beat({ rows: 3 });
    const incidents = async () =>
      (await api.read.expectSuccess('listMonitorIncidents', { params: monitor.params })).body.items;
    const [incident] = await incidents();
    expect(incident).toMatchObject({ state: 'open', measurement: 'rows', rule: 'minimum' });
    const applyOf = async (definition: object) => {
      const draft = await monitor.create(definition);
      const { body } = await monitor.apply(draft.id, { expectedConfigurationVersion: 2 });
      expect(body.status).toBe('applied');
    };
    return { ...monitor, incidents, applyOf, params: { incidentId: incident?.incidentId ?? '' } };
  }

  it.each([
    ['removes the rule', { maximum: 50 }, 'The rule was removed.'],
    ['has no rule at all', {}, 'The rule was removed.'],
    [
      'makes it inactive',
      { minimum: 10, ruleAction: { mode: 'inactive', version: 1 } },
      'The rule was made inactive.',
    ],
  ])('a draft that %s resolves it, in the name of whoever applied', async (_, definition, note) => {
    const { incidents, applyOf, params } = await withIncident();
    await applyOf(definition);
    expect((await incidents()).map(({ state }) => state)).toEqual(['resolved']);
    const { items } = (await api.read.expectSuccess('getIncidentTimeline', { params })).body;
    expect(items).toContainEqual(
      expect.objectContaining({ type: 'resolved', note, actor: expect.anything() }),
    );
  });

  it('a draft with another bound keeps it, and the next beat that conforms ends it', async () => {
    const { incidents, applyOf, beat } = await withIncident();
    await applyOf({ minimum: 5, rulePolicy: { consecutiveObservations: 1, severity: 'critical' } });
    expect(await incidents()).toMatchObject([{ state: 'open', openSequence: 1 }]);
    await beat({ rows: 4 });
    expect(await incidents()).toMatchObject([{ state: 'open', openSequence: 1 }]);
    await beat({ rows: 6 });
    expect(await incidents()).toMatchObject([{ state: 'recovered', openSequence: 1 }]);
  });

  it('a draft that is refused keeps it', async () => {
    const { incidents, create, apply } = await withIncident();
    const draft = await create({ maximum: 50 });
    expect((await apply(draft.id, { expectedConfigurationVersion: 1 })).status).toBe(412);
    expect((await incidents()).map(({ state }) => state)).toEqual(['open']);
  });
});

describe('an apply that is refused', () => {
  it('with a stale version of the draft or the monitor is a 412 and changes nothing', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    await monitor.update(draft.id, { maximum: 1 });
    await monitor.patch({ description: 'changed' });
    const stale = { status: 412, code: 'service.precondition_failed' };
    for (const change of [
      { expectedDraftVersion: 1, expectedConfigurationVersion: 2 },
      { expectedDraftVersion: 2, expectedConfigurationVersion: 1 },
    ])
      expect((await monitor.apply(draft.id, change)).problem).toMatchObject(stale);
    expect((await monitor.read(draft.id)).status).toBe('open');
    expect(await rulesOf(monitor.params)).toEqual({ version: 2, measurements: {} });
    const current = { expectedDraftVersion: 2, expectedConfigurationVersion: 2 };
    expect((await monitor.apply(draft.id, current)).status).toBe(200);
  });

  it('without confirm: true is a 400', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    for (const confirm of [undefined, false]) {
      const body = {
        draftId: draft.id,
        confirm,
        expectedDraftVersion: 1,
        expectedConfigurationVersion: 1,
      };
      const { problem } = await api.manage.call('applyDraft', { params: monitor.params, body });
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'confirm' }] });
    }
  });

  it('for one measurement too many is a 409', async () => {
    const monitor = await makeDrafted(api);
    const keys = Array.from({ length: 64 }, (_, index) => [`m${index}`, { minimum: 1 }]);
    await monitor.patch({ measurements: Object.fromEntries(keys) });
    const draft = await monitor.create();
    const { problem } = await monitor.apply(draft.id, { expectedConfigurationVersion: 2 });
    expect(problem).toMatchObject({
      code: 'service.conflict',
      detail: 'A monitor has rules for at most 64 measurements: remove one first.',
    });
    expect((await monitor.read(draft.id)).status).toBe('open');
  });

  it('a rule that the plan does not have is refused at creation, update and apply', async () => {
    const monitor = await makeDrafted(api);
    const [plain, ratio] = [{ minimum: 1 }, { ratio: { denominator: 'all', maximum: 1 } }];
    const [first, second] = [await monitor.create(plain), await monitor.create(ratio)];
    const setPlan = (plan: string) =>
      api.pool.query('update organizations set plan = $2 where organization_id = $1', [
        api.organizationId,
        plan,
      ]);
    await setPlan('builder');
    try {
      const body = { proposal: { measurementKey: 'rows', definition: ratio } };
      const created = await waitFor(async () => {
        const answer = await api.manage.call('createDraft', { params: monitor.params, body });
        return answer.status === 403 ? answer : undefined;
      });
      for (const { problem } of [
        created,
        await monitor.update(first.id, ratio),
        await monitor.apply(second.id),
      ]) {
        expect(problem).toMatchObject({
          code: 'service.plan_limit_reached',
          limit: { dimension: 'detector_feature' },
          fieldErrors: [{ path: 'proposal.definition.ratio' }],
        });
      }
      expect((await monitor.apply(first.id)).status).toBe(200);
    } finally {
      await setPlan('scale');
    }
  });
});

describe('an apply that meets others', () => {
  it('of two at once one wins, and the draft is applied once', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const answers = await Promise.all(Array.from({ length: 6 }, () => monitor.apply(draft.id)));
    const codes = answers.map(({ problem }) => problem?.code ?? 'applied').sort();
    expect(codes).toEqual(['applied', ...Array(5).fill('service.draft_closed')]);
    expect((await rulesOf(monitor.params)).version).toBe(2);
  });

  it('of two drafts from one configuration at once one wins, and the other one is stale and open', async () => {
    const monitor = await makeDrafted(api);
    const drafts = [await monitor.create({ minimum: 1 }), await monitor.create({ minimum: 2 })];
    const answers = await Promise.all(drafts.map(({ id }) => monitor.apply(id)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412]);
    const statuses = await Promise.all(drafts.map(async ({ id }) => (await monitor.read(id)).status));
    expect(statuses.toSorted()).toEqual(['applied', 'open']);
  });

  it('that cannot close the draft leaves the monitor as it was', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    await api.pool.query(
      `alter table drafts add constraint never_applied check (status <> 'applied') not valid`,
    );
    try {
      expect((await monitor.apply(draft.id)).status).toBe(500);
    } finally {
      await api.pool.query('alter table drafts drop constraint never_applied');
    }
    expect(await rulesOf(monitor.params)).toEqual({ version: 1, measurements: {} });
    expect((await monitor.read(draft.id)).status).toBe('open');
  });

  it('a deletion and creations at once leave no draft behind', async () => {
    const monitor = await makeDrafted(api);
    const { params } = monitor;
    const body = { proposal: { measurementKey: 'rows', definition: {} } };
    const creations = Array.from({ length: 8 }, () => api.manage.call('createDraft', { params, body }));
    const { rows } = await api.pool.query(
      'select project_id, monitor_key from monitors where monitor_id = $1',
      [params.monitorId],
    );
    const deleted = api.manage.call('deleteMonitor', { params, ifMatch: '"configuration-1"' });
    const statuses = (await Promise.all([...creations, deleted])).map(({ status }) => status);
    expect(statuses.pop()).toBe(204);
    expect(statuses.filter((status) => status !== 201 && status !== 404)).toEqual([]);
    const left = await api.pool.query('select from drafts where project_id = $1 and monitor_key = $2', [
      rows[0].project_id,
      rows[0].monitor_key,
    ]);
    expect(left.rowCount).toBe(0);
  });
});

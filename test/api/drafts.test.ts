// Drafts of rules over HTTP: create, list, get, update, cancel (docs/contract/rules.md).
// Holds: createDraft, listDrafts, getDraft, updateDraft, cancelDraft.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DRAFT_EXPIRY_MS, MAX_CLOSED_DRAFTS, MAX_OPEN_DRAFTS } from '../../src/domain/draft.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeDrafted } from './draft-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const UNKNOWN = 'draft_01a2034d77c07f25b18e34d96c02fa51';
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const defaults = {
  metricType: 'gauge',
  missingPolicy: 'skip',
  transform: 'none',
  mode: 'heartbeat',
  rulePolicy: { consecutiveObservations: 1, severity: 'warning' },
  ruleAction: { mode: 'active', version: 1 },
};

describe('a new draft', () => {
  it('is open and shows its proposal with defaults, and an empty window where no beat has come', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create({ minimum: 10 });
    expect(draft).toEqual({
      id: expect.stringMatching(/^draft_[0-9a-f]{32}$/),
      monitorKey: monitor.params.monitorId,
      jurisdiction: 'unrestricted',
      version: 1,
      baseConfigurationVersion: 1,
      status: 'open',
      proposal: { measurementKey: 'rows', definition: { ...defaults, minimum: 10 } },
      history: { frozenAt: time, observationCount: 0 },
      createdAt: draft.history.frozenAt,
      updatedAt: draft.history.frozenAt,
    });
    expect(await monitor.read(draft.id)).toEqual(draft);
    const { body } = await api.read.expectSuccess('getMonitor', { params: monitor.params });
    expect([body.configurationVersion, body.measurements]).toEqual([1, {}]);
  });

  it('freezes the newest 200 observations of every kind, and later beats do not change its window', async () => {
    const monitor = await makeDrafted(api);
    await monitor.beat({ rows: 1 });
    await monitor.beat({}, '/start');
    const small = await monitor.create();
    expect(small.history).toMatchObject({ observationCount: 2, fromSequence: 1, throughSequence: 2 });
    await monitor.insertBeats(250);
    const full = await monitor.create();
    expect(full.history).toMatchObject({ observationCount: 200, fromSequence: 53, throughSequence: 252 });
    expect((await monitor.read(small.id)).history).toEqual(small.history);
  });

  it('removes rules that are null or in disabledRules; a definition that has none left is inactive', async () => {
    const monitor = await makeDrafted(api);
    const { proposal } = await monitor.create({
      minimum: 1,
      maximum: null,
      ratio: { denominator: 'all', minimum: null, maximum: 2 },
      maximumAbsoluteDelta: 5,
      maximumPercentageDelta: 50,
      zeroExpectation: 'nonzero',
      disabledRules: ['minimum', 'maximumPercentageDelta'],
    });
    expect(proposal.definition).toEqual({
      ...defaults,
      maximumAbsoluteDelta: 5,
      zeroExpectation: 'nonzero',
      ratio: { denominator: 'all', maximum: 2 },
    });
    const empty = await monitor.create({ minimum: 1, disabledRules: ['minimum'] });
    const { rulePolicy: _, ...rest } = defaults;
    expect(empty.proposal.definition).toEqual({ ...rest, ruleAction: { mode: 'inactive', version: 1 } });
  });

  it.each([
    ['a minimum above the maximum', { minimum: 2, maximum: 1 }, 'minimum', 'minimum_above_maximum'],
    [
      'a ratio to itself',
      { ratio: { denominator: 'rows', minimum: 1 } },
      'ratio.denominator',
      'denominator_is_itself',
    ],
    [
      'an active action without a rule',
      { minimum: 1, disabledRules: ['minimum'], ruleAction: { mode: 'active', version: 1 } },
      'ruleAction.mode',
      'rule_required',
    ],
  ])('is refused with the path of %s', async (_, definition, path, code) => {
    const { params } = await makeDrafted(api);
    const body = { proposal: { measurementKey: 'rows', definition } };
    const { problem } = await api.manage.call('createDraft', { params, body });
    expect(problem).toMatchObject({
      status: 400,
      fieldErrors: [{ path: `proposal.definition.${path}`, code }],
    });
  });

  it('is refused where the monitor has its most open drafts, until one is closed', async () => {
    const monitor = await makeDrafted(api);
    const first = await monitor.create();
    await api.pool.query(
      `insert into drafts (project_id, draft_id, monitor_key, base_configuration_version, proposal, history, created_at, updated_at)
       select project_id, 'draft_' || n, monitor_key, 1, proposal, history, created_at, updated_at
       from drafts, generate_series(2, ${MAX_OPEN_DRAFTS}) n where draft_id = $1`,
      [first.id],
    );
    const body = { proposal: { measurementKey: 'rows', definition: {} } };
    const { params } = monitor;
    const { problem } = await api.manage.call('createDraft', { params, body });
    expect(problem).toMatchObject({
      code: 'service.conflict',
      detail: 'The monitor has 100 open drafts: cancel or apply one first.',
    });
    expect(await (await makeDrafted(api)).create()).toMatchObject({ status: 'open' });
    expect((await monitor.cancel(first.id)).status).toBe(200);
    await monitor.create();
    expect((await api.manage.call('createDraft', { params, body })).status).toBe(409);
    // Drafts whose time is over do not count, also before the sweeper has closed them.
    await monitor.age(DRAFT_EXPIRY_MS);
    await monitor.create();
  });
});

describe('the list of drafts', () => {
  it('has the drafts of the monitor alone, newest first, closed ones too', async () => {
    const monitor = await makeDrafted(api);
    await (await makeDrafted(api)).create();
    const ids = [];
    for (const minimum of [1, 2, 3]) ids.push((await monitor.create({ minimum })).id);
    await monitor.cancel(ids[1] ?? '');
    const { params } = monitor;
    const first = await api.read.expectSuccess('listDrafts', { params, query: { limit: 2 } });
    const query = { limit: 2, cursor: first.body.nextCursor };
    const second = await api.read.expectSuccess('listDrafts', { params, query });
    const items = [...first.body.items, ...second.body.items];
    expect(items.map(({ id, status }) => [id, status])).toEqual([
      [ids[2], 'open'],
      [ids[1], 'canceled'],
      [ids[0], 'open'],
    ]);
    expect(second.body.nextCursor).toBeUndefined();
  });

  it('a draft of another monitor, and one that nobody has, are 404', async () => {
    const [one, other] = [await makeDrafted(api), await makeDrafted(api)];
    const draft = await other.create();
    for (const draftId of [draft.id, UNKNOWN]) {
      const read = await api.read.call('getDraft', { params: { ...one.params, draftId } });
      const answers = [
        read,
        await one.cancel(draftId),
        await one.update(draftId, {}),
        await one.apply(draftId),
      ];
      expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
    }
  });
});

describe('an update of a draft', () => {
  it('replaces the proposal and raises the version, and keeps the window', async () => {
    const monitor = await makeDrafted(api);
    await monitor.beat({ rows: 1 });
    const draft = await monitor.create({ minimum: 10, maximum: 20 });
    await monitor.beat({ rows: 2 });
    const { body } = await monitor.update(draft.id, { maximum: 30 });
    expect(body).toEqual({
      ...draft,
      version: 2,
      proposal: { measurementKey: 'rows', definition: { ...defaults, maximum: 30 } },
      updatedAt: time,
    });
    expect(await monitor.read(draft.id)).toEqual(body);
  });

  it('with a stale version is a 409 that names the current one, and changes nothing', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const { body: second } = await monitor.update(draft.id, { maximum: 1 });
    const { problem } = await monitor.update(draft.id, { maximum: 2 });
    expect(problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
      detail: 'The draft now has version 2: read it again, then decide whether to repeat the change.',
      fieldErrors: [{ path: 'expectedDraftVersion', code: 'stale' }],
    });
    const cancel = await monitor.cancel(draft.id, { expectedDraftVersion: 1 });
    expect(cancel.problem).toMatchObject({ status: 409, code: 'service.conflict' });
    expect(await monitor.read(draft.id)).toEqual(second);
  });

  it('two updates from one version at once: one wins, and the other one is stale', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const answers = await Promise.all([1, 2].map((maximum) => monitor.update(draft.id, { maximum })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect((await monitor.read(draft.id)).version).toBe(2);
  });
});

describe('a closed draft', () => {
  it('a canceled draft takes no change any more, and the monitor is as it was', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const { body } = await monitor.cancel(draft.id, { expectedDraftVersion: 1 });
    expect(body).toEqual({ ...draft, status: 'canceled', closedAt: time });
    for (const answer of [
      await monitor.cancel(draft.id),
      await monitor.update(draft.id, {}),
      await monitor.apply(draft.id),
    ]) {
      expect(answer.problem).toMatchObject({ status: 409, code: 'service.draft_closed' });
      expect(answer.problem?.detail).toContain('canceled');
    }
    const monitorNow = await api.read.expectSuccess('getMonitor', { params: monitor.params });
    expect(monitorNow.body.configurationVersion).toBe(1);
  });

  it('a creation leaves the newest 100 closed drafts of its monitor, and every open one', async () => {
    const [monitor, other] = [await makeDrafted(api), await makeDrafted(api)];
    const open = await monitor.create();
    const [oldest, newest] = [await monitor.create(), await monitor.create()];
    for (const draft of [oldest, newest]) await monitor.cancel(draft.id);
    const others = await other.create();
    await other.cancel(others.id);
    // Between the two: ids are made from the creation.
    await api.pool.query(
      `insert into drafts (project_id, draft_id, monitor_key, base_configuration_version, status, proposal, history,
         created_at, updated_at, closed_at)
       select project_id, draft_id || lpad(n::text, 4, '0'), monitor_key, 1, 'canceled', proposal, history,
         created_at, updated_at, closed_at
       from drafts, generate_series(1, $2) n where draft_id = $1`,
      [oldest.id, MAX_CLOSED_DRAFTS - 1],
    );
    const idsOf = async () => {
      const { rows } = await api.pool.query<{ draft_id: string }>(
        `select draft_id from drafts where ${monitor.ofMonitor} order by draft_id`,
      );
      return rows.map((row) => row.draft_id);
    };
    const before = await idsOf();
    const fresh = await monitor.create();
    expect(await idsOf()).toEqual([...before.filter((id) => id !== oldest.id), fresh.id]);
    expect(await monitor.cancel(fresh.id)).toMatchObject({ status: 200 });
    const last = await monitor.create();
    const left = before.filter((id) => id !== oldest.id && id !== `${oldest.id}0001`);
    expect(await idsOf()).toEqual([...left, fresh.id, last.id]);
    expect(left).toContain(open.id);
    expect((await other.read(others.id)).status).toBe('canceled');
  });

  it('the deletion of the monitor takes its drafts along', async () => {
    const monitor = await makeDrafted(api);
    const draft = await monitor.create();
    const ifMatch = '"configuration-1"';
    await api.manage.expectSuccess('deleteMonitor', { params: monitor.params, ifMatch });
    const { rowCount } = await api.pool.query('select from drafts where draft_id = $1', [draft.id]);
    expect(rowCount).toBe(0);
  });
});

describe('who may draft', () => {
  it('a reader reads drafts, and only who manages changes them', async () => {
    const monitor = await makeDrafted(api);
    const { id: draftId } = await monitor.create();
    const { params } = monitor;
    for (const client of [api.read, api.viewer]) {
      expect((await client.call('getDraft', { params: { ...params, draftId } })).status).toBe(200);
      expect((await client.call('listDrafts', { params })).status).toBe(200);
      const body = { proposal: { measurementKey: 'rows', definition: {} } };
      expect((await client.call('createDraft', { params, body })).status).toBe(403);
      const change = { draftId, expectedDraftVersion: 1, ...body };
      expect((await client.call('updateDraft', { params, body: change })).status).toBe(403);
      expect((await client.call('cancelDraft', { params, body: { draftId } })).status).toBe(403);
    }
  });
});

// `rollout: Replay` of a Rule: the definition is replayed on the Monitors that it matches, and nothing changes.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RULES } from '../../src/operator/kinds/rule/rule-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { Crash } from './crashing-clients.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';
import { draftsOf, replayByApi, replayFinishes, withRows } from './rule-replay-fixture.ts';

const SPEC = { intervalSeconds: 3600, callback: { kind: 'disabled' } };
const definition = { minimum: 10 };
const replayOf = (app: string, more: object = {}) => ({
  selector: { matchLabels: { app } },
  ...{ measurementKey: 'rows', definition, rollout: 'Replay' },
  ...more,
});

describe.skipIf(!hasCluster)('a Rule with rollout: Replay', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;

  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
  });
  afterAll(() => fixture?.close());

  const makeMonitors = async (app: string, rows: readonly (readonly number[])[]) => {
    const names = rows.map((_, index) => `${app}-${String(index).padStart(2, '0')}`);
    for (const name of names) await fixture.createMonitor(name, SPEC, { labels: { app } });
    const ids: string[] = [];
    for (const [index, name] of names.entries()) ids.push(await withRows(fixture, name, rows[index] ?? []));
    return ids;
  };

  test('shows of thirty Monitors the twenty with the greatest effect and the sums of all, as the API replays them', async () => {
    // The first has no violation, the last has 29 rows of them.
    const rows = Array.from({ length: 30 }, (_, index) =>
      Array.from({ length: 60 }, (_, beat) => (beat % 2 === 0 && beat / 2 < index ? 1 : 50)),
    );
    const ids = await makeMonitors('many', rows);
    await fixture.createRule('many', replayOf('many'));
    const rule = await fixture.ruleBecomes('many', 'Ready', 'True', 'Replayed');
    const { replay, display } = rule.status ?? {};
    expect(replay).toMatchObject({
      ...{ generation: 1, matched: 30, replayed: 30, omitted: 0, progress: 'replayed 30 of 30' },
      total: {
        ...{ observationCount: 1_800, currentIncidents: 0, removed: 0, refusedCount: 0 },
        ...{ proposedIncidents: 435, added: 435 },
      },
      finishedAt: expect.any(String),
    });
    expect(display).toEqual({ monitors: '30' });
    expect(replay?.monitors.map(({ name }) => name)).toEqual(
      Array.from({ length: 20 }, (_, index) => `many-${29 - index}`),
    );
    for (const { name, ...numbers } of replay?.monitors.slice(0, 3) ?? [])
      expect(numbers).toEqual(await replayByApi(fixture, ids[Number(name.slice(-2))] ?? '', rule));
    expect((await draftsOf(fixture)).filter(({ status }) => status !== 'canceled')).toEqual([]);
    const event = await fixture.eventAppears('many', 'Replayed');
    expect(event.note).toContain('435 incidents in place of 0');
    // Nothing changed.
    const { body } = await fixture.api.expectSuccess('getMonitor', { params: { monitorId: ids[29] ?? '' } });
    expect([body.measurements, body.status.openIncidents]).toEqual([{}, []]);
  });

  test('replays once for a generation, and again for another generation or another value of the annotation', async () => {
    await makeMonitors('again', [[1, 50, 5, 50]]);
    await fixture.createRule('again', replayOf('again'));
    const first = await replayFinishes(fixture, 'again');
    expect(first.status?.replay?.total).toMatchObject({ proposedIncidents: 2 });
    const drafts = (await draftsOf(fixture)).length;
    // Another operator finds it finished.
    await operator.stop();
    operator = await fixture.startOperator();
    const ref = { namespace: fixture.namespace, name: 'again' };
    await fixture.kube.client.mergePatch(RULES, ref, { spec: { definition: { minimum: 2 } } });
    const second = await replayFinishes(fixture, 'again', { generation: 2 });
    expect(second.status?.replay?.total).toMatchObject({ proposedIncidents: 1 });
    expect(await draftsOf(fixture)).toHaveLength(drafts + 1);

    await fixture.kubectl(['annotate', 'brule', 'again', 'beatkeeper.dev/replay=friday']);
    await replayFinishes(fixture, 'again', { generation: 2, request: 'friday' });
    expect(await draftsOf(fixture)).toHaveLength(drafts + 2);
    expect(operator.calls.get('createDraft')).toBe(2);
  });

  test('says nothing of a replay once its rollout is Apply', async () => {
    await makeMonitors('applied', [[1]]);
    await fixture.createRule('applied', replayOf('applied'));
    await replayFinishes(fixture, 'applied');
    const ref = { namespace: fixture.namespace, name: 'applied' };
    await fixture.kube.client.mergePatch(RULES, ref, { spec: { rollout: 'Apply' } });
    const isGone = async () => (await fixture.rule('applied')).status?.replay === undefined;
    await waitFor(isGone, { what: 'status.replay is gone' });
  });

  test('leaves out a Monitor that sets the measurement itself, and says so', async () => {
    await fixture.createMonitor('own', { ...SPEC, measurements: { rows: { minimum: 3 } } });
    await withRows(fixture, 'own', [1]);
    const more = { selector: undefined, monitorRef: { name: 'own' } };
    await fixture.createRule('own', replayOf('', more));
    const { status } = await fixture.ruleBecomes('own', 'Ready', 'False', 'NotReplayed');
    expect(status?.replay).toMatchObject({ replayed: 0, omitted: 1, monitors: [] });
    expect(status?.replay?.omissions).toEqual([
      {
        ...{ reason: 'SetByMonitor', count: 1, monitor: 'own' },
        message: 'The Monitor sets rows itself, which wins over every Rule.',
      },
    ]);
    await fixture.eventAppears('own', 'Refused');
  });

  test('waits for Monitors, and begins when the first one comes', async () => {
    await fixture.createRule('early', replayOf('early'));
    await fixture.ruleBecomes('early', 'Ready', 'Unknown', 'NoMonitors');
    await makeMonitors('early', [[]]);
    const { status } = await replayFinishes(fixture, 'early');
    expect(status?.replay).toMatchObject({ matched: 1, replayed: 1 });
  });

  test('counts a Monitor that the API refuses with the words of the API', async () => {
    const [monitorId = ''] = await makeMonitors('full', [[1], [1]]);
    const body = { proposal: { measurementKey: 'other', definition } };
    for (let count = 0; count < 100; count += 1)
      await fixture.api.expectSuccess('createDraft', { params: { monitorId }, body });
    await fixture.createRule('full', replayOf('full'));
    const { status } = await replayFinishes(fixture, 'full');
    expect(status?.replay).toMatchObject({ replayed: 1, omitted: 1, total: { added: 1 } });
    expect(status?.replay?.omissions).toEqual([
      {
        ...{ reason: 'service.conflict', count: 1, monitor: 'full-00' },
        message: expect.stringContaining('has 100 open drafts'),
      },
    ]);
  });
});

describe.skipIf(!hasCluster)('an operator that dies while it replays', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    const operator = await fixture.startOperator();
    for (const name of ['a', 'b', 'c']) {
      await fixture.createMonitor(name, SPEC, { labels: { app: 'crash' } });
      await withRows(fixture, name, [1, 50, 1]);
    }
    await operator.stop();
  });
  afterAll(() => fixture?.close());

  // Its writes: the claim, the first status, then draft, cancellation and replay of each Monitor.
  const places = [3, 4, 5, 7, 11].flatMap((at) => [[at, 'before'] as const, [at, 'after'] as const]);
  test.each(places)(
    'at write %d, %s it, is followed by one that opens no second draft and has the same numbers',
    async (at, mode) => {
      const name = `crash-${at}-${mode}`;
      const drafts = (await draftsOf(fixture)).length;
      await fixture.createRule(name, replayOf('crash'));
      const crash = new Crash(at, mode);
      const dying = await fixture.startOperator(crash.clients);
      await crash.died.promise;
      await dying.stop();
      const next = await fixture.startOperator();
      const { status } = await replayFinishes(fixture, name);
      await next.stop();
      expect(status?.replay).toMatchObject({
        ...{ matched: 3, replayed: 3, omitted: 0 },
        total: { observationCount: 9, proposedIncidents: 6, added: 6 },
      });
      const after = await draftsOf(fixture);
      expect(after).toHaveLength(drafts + 3);
      expect(after.filter((draft) => draft.status !== 'canceled')).toEqual([]);
      await fixture.kube.client.delete(RULES, { namespace: fixture.namespace, name });
    },
  );
});

// Replays of Rules beside the passes: few at once, in turns, and gone on with after faults and restarts.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ApiProblem } from '../../../src/client/api-problem.ts';
import type { RuleReplayStatus } from '../../../src/contract/crd/rule-replay.ts';
import { silentLog } from '../../../src/kube/kube-log.ts';
import { objectKey } from '../../../src/kube/kube-object.ts';
import type { MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { type ReplayProposal, replayMonitor } from '../../../src/operator/kinds/rule/replay/replay-calls.ts';
import { ReplayRuns } from '../../../src/operator/kinds/rule/replay/replay-runs.ts';
import { type TargetState, targetStateOf } from '../../../src/operator/kinds/rule/replay/replay-targets.ts';
import type { RuleObject } from '../../../src/operator/kinds/rule/rule-object.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type FakeAnswer, type FakeApi, startFakeApi } from './fake-api.ts';

const PROPOSAL: ReplayProposal = {
  ...{ uid: 'rule-uid', generation: 1, request: undefined },
  ...{ measurementKey: 'rows', definition: { minimum: 1 } },
};
const ruleOf = (key: string) => {
  const [namespace, name] = key.split('/');
  return { metadata: { namespace, name } } as RuleObject;
};
const monitorOf = (name: string, namespace = 'a'): MonitorObject => ({
  metadata: { name, namespace, uid: `uid-${name}`, creationTimestamp: '2026-11-24T00:00:00Z' },
  spec: { deletionPolicy: 'Archive' },
});
const monitorsOf = (count: number, namespace = 'a') =>
  Array.from({ length: count }, (_, index) =>
    monitorOf(`${namespace}${String(index).padStart(2, '0')}`, namespace),
  );

interface Call {
  operation: 'create' | 'cancel' | 'replay';
  monitorId: string;
  body: { draftId?: string; since?: string };
}
const problem = (status: number, code: string, more: object = {}): FakeAnswer => ({
  status,
  body: { title: 't', status, code, detail: 'No.', retryable: status >= 500, ...more },
});
const replayOf = (added: number) => ({
  window: { observationCount: 10 },
  current: { incidents: [] },
  proposed: { incidents: Array.from({ length: added }, () => ({})), refusedCount: 0 },
  difference: { added: Array.from({ length: added }, () => ({})), removed: [] },
});
const answer = ({ operation, monitorId }: Call): FakeAnswer =>
  ({
    create: { status: 201, body: { id: `draft-${monitorId}` } },
    cancel: { status: 200, body: {} },
    replay: { status: 200, body: replayOf(1) },
  })[operation];

describe('the replays of Rules', () => {
  let api: FakeApi;
  let runs: ReplayRuns;
  let calls: Call[];
  let monitors: Map<string, MonitorObject[]>;
  let pending: Set<string>;
  let told: string[];

  const stateOf = ({ metadata: { name } }: MonitorObject): TargetState =>
    pending.has(name)
      ? { kind: 'pending' }
      : { kind: 'ready', monitor: { id: `mon_${name}`, projectId: 'p' } };
  const startRuns = () => {
    const source = {
      monitorsOf: (rule: RuleObject) => monitors.get(objectKey(rule)) ?? [],
      stateOf,
      changed: (key: string) => void told.push(key),
    };
    return new ReplayRuns({ api: api.client, log: silentLog }, source);
  };
  const start = async (given: (call: Call) => Promise<FakeAnswer> | FakeAnswer = answer) => {
    api = await startFakeApi(async (request, body) => {
      const [, monitorId = '', name] =
        /monitors\/([^/]+)\/rule-workbench\/drafts(?:\/(\w+))?$/.exec(request) ?? [];
      const operation = (name ?? 'create') as Call['operation'];
      const call = { operation, monitorId: monitorId.replace('mon_', ''), body: JSON.parse(body) };
      calls.push(call);
      return await given(call);
    });
    runs = startRuns();
  };
  beforeEach(() => {
    calls = [];
    told = [];
    pending = new Set();
    monitors = new Map();
  });
  afterEach(async () => {
    await runs.stop();
    await api.close();
  });

  const follow = (key: string, proposal = PROPOSAL, stored?: RuleReplayStatus) =>
    runs.follow(ruleOf(key), proposal, stored);
  const finished = (key: string, proposal = PROPOSAL, stored?: RuleReplayStatus) =>
    waitFor(
      () => {
        const progress = follow(key, proposal, stored)?.progress;
        return progress?.finishedAt === undefined ? undefined : progress;
      },
      { what: `the replay of ${key} is finished` },
    );
  const replayed = () =>
    calls.filter(({ operation }) => operation === 'replay').map(({ monitorId }) => monitorId);

  it('open a draft on each Monitor, cancel it and replay it over the window of the run, then end once', async () => {
    await start();
    monitors.set('a/r', monitorsOf(7));
    const begun = follow('a/r');
    expect(begun?.progress).toMatchObject({ progress: 'replayed 0 of 7', matched: 7 });
    const progress = await finished('a/r');
    expect(progress).toMatchObject({ replayed: 7, omitted: 0, total: { observationCount: 70, added: 7 } });
    expect(calls.slice(0, 3).map(({ operation, body }) => [operation, body])).toEqual([
      ['create', { proposal: { measurementKey: 'rows', definition: { minimum: 1 } } }],
      ['cancel', { draftId: 'draft-a00' }],
      ['replay', { draftId: 'draft-a00', since: progress.since, until: progress.until }],
    ]);
    expect(follow('a/r')?.progress).toBe(progress);
    expect(calls).toHaveLength(21);
    expect(told).toContain('a/r');
  });

  it('do not begin while the Rule matches no Monitor', async () => {
    await start();
    monitors.set('a/r', []);
    expect(follow('a/r')).toBeUndefined();
    monitors.set('a/r', monitorsOf(1));
    expect((await finished('a/r')).replayed).toBe(1);
  });

  it('take Monitors that come while they go on', async () => {
    await start((call) => {
      if (call.monitorId === 'a01') monitors.set('a/r', monitorsOf(4));
      return answer(call);
    });
    monitors.set('a/r', monitorsOf(2));
    expect(await finished('a/r')).toMatchObject({ matched: 4, replayed: 4, progress: 'replayed 4 of 4' });
  });

  it('are two at a time in all, and a Rule with few Monitors does not wait for one with many', async () => {
    let underWay = 0;
    let most = 0;
    await start(async (call) => {
      underWay += 1;
      most = Math.max(most, underWay);
      // The answer comes after other calls have had their chance.
      await new Promise((resolve) => setImmediate(resolve));
      underWay -= 1;
      return answer(call);
    });
    for (const key of ['a/1', 'a/2', 'a/3']) {
      monitors.set(key, monitorsOf(200));
      follow(key);
    }
    monitors.set('b/few', monitorsOf(1, 'b'));
    await finished('b/few');
    expect(most).toBe(2);
    expect(replayed().slice(0, 100)).toContain('b00');
  });

  it('go on after faults with the Monitor that failed, and lose none', async () => {
    let faults = 2;
    await start((call) => {
      if (call.operation === 'replay' && call.monitorId === 'a02' && faults > 0) {
        faults -= 1;
        return problem(500, 'service.internal_error');
      }
      return answer(call);
    });
    monitors.set('a/r', monitorsOf(4));
    expect(await finished('a/r')).toMatchObject({ replayed: 4, omitted: 0, total: { added: 4 } });
    expect(replayed()).toEqual(['a00', 'a01', 'a02', 'a02', 'a02', 'a03']);
  });

  it('say why they do not go on while the API is away', async () => {
    await start(() => problem(500, 'service.internal_error'));
    monitors.set('a/r', monitorsOf(1));
    const followed = await waitFor(
      () => {
        const now = follow('a/r');
        return now?.waitsFor === undefined ? undefined : now;
      },
      { what: 'the replay says that it waits' },
    );
    expect(followed.waitsFor).toBe('Goes on when the API answers: service.internal_error: No.');
    expect(followed.progress.replayed).toBe(0);
  });

  it('count a refused Monitor with the words of the API', async () => {
    await start((call) =>
      call.operation === 'create' && call.monitorId === 'a00'
        ? problem(409, 'service.conflict', { detail: 'The monitor has 100 open drafts.' })
        : answer(call),
    );
    monitors.set('a/r', monitorsOf(2));
    const message = 'service.conflict: The monitor has 100 open drafts.';
    expect(await finished('a/r')).toMatchObject({
      ...{ replayed: 1, omitted: 1 },
      omissions: [{ reason: 'service.conflict', message, count: 1, monitor: 'a00' }],
    });
  });

  it('take a draft that is canceled already for canceled', async () => {
    await start((call) =>
      call.operation === 'cancel' ? problem(409, 'service.draft_closed') : answer(call),
    );
    monitors.set('a/r', monitorsOf(1));
    expect((await finished('a/r')).replayed).toBe(1);
  });

  it('wait for a Monitor that no pass has reconciled yet', async () => {
    await start();
    pending.add('a01');
    monitors.set('a/r', monitorsOf(3));
    follow('a/r');
    await waitFor(() => follow('a/r')?.waitsFor !== undefined, { what: 'the replay waits' });
    expect(follow('a/r')).toMatchObject({
      waitsFor: 'Waits until the Monitor a01 is reconciled.',
      progress: { replayed: 1, matched: 3 },
    });
    pending.clear();
    expect((await finished('a/r')).replayed).toBe(3);
  });

  it('of another operator go on after the Monitor that the status names, with its window and its sums', async () => {
    await start();
    monitors.set('a/r', monitorsOf(6));
    const whole = await finished('a/r');
    await runs.stop();
    calls = [];
    runs = startRuns();
    const { finishedAt: _, ...rest } = whole;
    const stored = {
      ...rest,
      replayed: 4,
      cursor: '2026-11-24T00:00:00Z/uid-a03',
      since: '2026-10-30T00:00:00Z',
    };
    const after = await finished('a/r', PROPOSAL, stored);
    expect(replayed()).toEqual(['a04', 'a05']);
    expect(after).toMatchObject({ replayed: 6, since: stored.since, total: { added: 8 } });
    calls = [];
    runs.forget('a/r');
    expect(follow('a/r', PROPOSAL, after)?.progress).toBe(after);
    expect(calls).toEqual([]);
  });

  it('begin anew with another generation, in the middle of a call too, and with another request', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await start(async (call) => {
      if (calls.length === 3) await held;
      return answer(call);
    });
    monitors.set('a/r', monitorsOf(2));
    follow('a/r');
    await waitFor(() => calls.length === 3, { what: 'the replay of the first Monitor' });
    const changed = { ...PROPOSAL, generation: 2, definition: { minimum: 5 } };
    expect(follow('a/r', changed)?.progress).toMatchObject({ generation: 2, replayed: 0 });
    release();
    expect(await finished('a/r', changed)).toMatchObject({ generation: 2, replayed: 2, total: { added: 2 } });
    const again = { ...changed, request: 'friday' };
    expect(await finished('a/r', again)).toMatchObject({ request: 'friday', replayed: 2 });
  });

  it('end with the Rule', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    await start(async (call) => {
      await held;
      return answer(call);
    });
    monitors.set('a/r', monitorsOf(9));
    follow('a/r');
    await waitFor(() => calls.length === 1, { what: 'the first call' });
    monitors.delete('a/r');
    runs.forget('a/r');
    monitors.set('b/r', monitorsOf(1, 'b'));
    follow('b/r');
    release();
    await finished('b/r');
    expect(replayed().filter((monitorId) => monitorId.startsWith('a')).length).toBeLessThanOrEqual(1);
  });
});

it('A Monitor whose replay never ends in time is left out at the third try', async () => {
  const api = {
    call: async (operation: string) => {
      if (operation !== 'replayDraft') return { status: 200, body: { id: 'd' }, dateMs: 0 };
      throw new ApiProblem({ status: 0, code: 'timeout', detail: 'No answer within 60 seconds.' });
    },
  } as unknown as Parameters<typeof replayMonitor>[0];
  const call = {
    monitor: { id: 'mon_a', projectId: 'p' },
    window: { since: '2026-10-25T00:00:00Z', until: '2026-11-24T00:00:00Z' },
    signal: new AbortController().signal,
  };
  for (const failures of [0, 1])
    await expect(replayMonitor(api, PROPOSAL, { ...call, failures })).rejects.toThrow('timeout');
  expect(await replayMonitor(api, PROPOSAL, { ...call, failures: 2 })).toEqual({
    omission: { reason: 'Timeout', message: 'No answer within 60 seconds.' },
  });
});

describe('a Monitor that a Rule matches', () => {
  const held = { id: 'mon_uida', projectId: 'p', atMs: 0 };
  const synced = (status: 'True' | 'False', reason: string) => ({
    conditions: [{ type: 'Synced', status, reason, message: '', lastTransitionTime: '2026-11-24T00:00:00Z' }],
  });
  const monitor = { ...monitorOf('a'), metadata: { name: 'a', uid: 'uida' } };
  const stateOf = (given: object, by: typeof held | undefined = held) =>
    targetStateOf({ ...monitor, ...given } as MonitorObject, by, 'rows');

  it('is replayed under the id that a pass gave to it, whatever its status says', () => {
    const ready = { kind: 'ready', monitor: { id: 'mon_uida', projectId: 'p' } };
    expect(stateOf({})).toEqual(ready);
    expect(stateOf({ status: { monitorId: 'mon_of_another', projectId: 'q' } })).toEqual(ready);
  });

  it.each([
    ['that no pass has reconciled', {}, undefined],
    ['that claims another id since', { metadata: { uid: 'another' } }, held],
    ['whose pass the API did not answer', { status: synced('False', 'ApiUnavailable') }, undefined],
  ])('%s is waited for', (_which, given, by) => {
    expect(targetStateOf({ ...monitor, ...given } as MonitorObject, by, 'rows').kind).toBe('pending');
  });

  it('that sets the measurement itself is left out: the rule would change nothing', () => {
    expect(stateOf({ spec: { measurements: { rows: {} } } })).toMatchObject({
      outcome: { omission: { reason: 'SetByMonitor' } },
    });
    expect(stateOf({ spec: { measurements: { other: {} } } }).kind).toBe('ready');
  });

  it('that is refused is left out and does not hold up the others', () => {
    expect(stateOf({ status: synced('False', 'Conflict') }, undefined)).toMatchObject({
      outcome: { omission: { reason: 'NotSynced', message: 'The Monitor is not synced (Conflict).' } },
    });
  });
});

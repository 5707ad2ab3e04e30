// The calls that ask whether callbacks may go to addresses: few, bounded, in turns, and beside the passes.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../../src/kube/kube-log.ts';
import { DestinationChecks } from '../../../src/operator/known/destination-checks.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type FakeAnswer, type FakeApi, startFakeApi } from './fake-api.ts';

const HOUR_MS = 3_600_000;

interface Call {
  project: string;
  endpointIds: string[];
}

describe('checks of destinations', () => {
  let api: FakeApi;
  let checks: DestinationChecks;
  let calls: Call[];
  let verdicts: Map<string, string>;
  const start = async (answer: (call: Call) => Promise<FakeAnswer> | FakeAnswer) => {
    calls = [];
    verdicts = new Map();
    api = await startFakeApi(async (_request, body, project) => {
      const call = { project, endpointIds: JSON.parse(body).endpointIds };
      calls.push(call);
      return await answer(call);
    });
    checks = new DestinationChecks({ api: api.client, log: silentLog });
  };
  afterEach(async () => {
    await checks.stop();
    await api.close();
  });

  const accepted = ({ endpointIds }: Call): FakeAnswer => {
    const items = endpointIds.map((endpointId) => ({ endpointId, verdict: 'accepted' }));
    return { status: 200, body: { items } };
  };
  const problem = (status: number, code: string): FakeAnswer => ({
    ...{ status, body: { title: 't', status, code, detail: 'No.', retryable: status >= 500 } },
  });
  const ask = (projectId: string, endpointId: string, { inMs = 0, about = {} } = {}) =>
    checks.ask({
      ...{ projectId, endpointId, about, dueAtMs: performance.now() + inMs },
      answered: ({ verdict }) => void verdicts.set(endpointId, verdict),
    });
  const answers = (count: number) =>
    waitFor(() => verdicts.size >= count, { what: `${count} answers have come` });

  it('ask with one call about a hundred endpoints of a project, as soon as one of them is due', async () => {
    await start(accepted);
    for (let i = 0; i < 149; i += 1) ask('p', `later${i}`, { inMs: HOUR_MS + i });
    ask('p', 'due');
    await answers(100);
    expect(calls).toHaveLength(1);
    expect(calls[0]?.endpointIds).toHaveLength(100);
    expect(calls[0]?.endpointIds).toContain('due');
    ask('p', 'due');
    await answers(150);
    expect(calls).toHaveLength(2);
  });

  it('of a project whose names never resolve take one call at a time, all together two, and each project has its turn', async () => {
    const held = new Map<string, () => void>();
    await start(async (call) => {
      if (call.project !== 'free') {
        const { promise, resolve } = Promise.withResolvers<void>();
        held.set(call.project, resolve);
        await promise;
      }
      return accepted(call);
    });
    for (let i = 0; i < 250; i += 1) ask('slow', `s${i}`);
    await waitFor(() => held.has('slow'), { what: 'the first call' });
    ask('free', 'f1');
    await answers(1);
    expect(verdicts.get('f1')).toBe('accepted');
    ask('also-slow', 'a1');
    await waitFor(() => held.has('also-slow'), { what: 'the second call' });
    ask('free', 'f2');
    ask('slow', 'more');
    held.get('slow')?.();
    await waitFor(() => calls.filter(({ project }) => project === 'slow').length === 2, {
      what: 'the next call of the slow project',
    });
    // The project that waited went first.
    expect(calls.map(({ project }) => project)).toEqual(['slow', 'free', 'also-slow', 'free', 'slow']);
    held.get('slow')?.();
    held.get('also-slow')?.();
  });

  describe('with a call under way', () => {
    let answerFirst: () => void;
    beforeEach(async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      answerFirst = resolve;
      await start(async (call) => {
        if (calls.length === 1) await promise;
        return accepted(call);
      });
    });
    const isUnderWay = () => waitFor(() => calls.length === 1, { what: 'the call' });

    it('keep a later question about another address of the endpoint, which the answer is not about', async () => {
      const answered: string[] = [];
      const askAbout = (address: string) =>
        checks.ask({
          ...{ projectId: 'p', endpointId: 'a', about: {}, dueAtMs: performance.now() },
          answered: () => void answered.push(address),
        });
      askAbout('former');
      await isUnderWay();
      askAbout('later');
      answerFirst();
      await waitFor(() => answered.length === 2, { what: 'both answers' });
      expect(answered).toEqual(['former', 'later']);
      expect(calls).toHaveLength(2);
    });

    it('do not ask again for a pass that puts the same question meanwhile', async () => {
      const about = {};
      ask('p', 'a', { about });
      await isUnderWay();
      ask('p', 'a', { about });
      answerFirst();
      await answers(1);
      ask('p', 'b');
      await answers(2);
      expect(calls.map(({ endpointIds }) => endpointIds)).toEqual([['a'], ['b']]);
    });
  });

  it('without an answer of the API are repeated, and no question is lost', async () => {
    await start((call) => (calls.length === 1 ? problem(500, 'service.internal_error') : accepted(call)));
    ask('p', 'a');
    await waitFor(() => api.ended.length === 1, { what: 'the failure' });
    ask('p', 'b');
    await answers(2);
    expect([...verdicts]).toEqual([
      ['a', 'accepted'],
      ['b', 'accepted'],
    ]);
  });

  it.each([
    ['that the API refuses', problem(403, 'service.permission_denied')],
    ['of a project that is gone', problem(404, 'service.not_found')],
    ['of an endpoint that is gone', { status: 200, body: { items: [] } }],
  ])('%s are unknown', async (_of, given) => {
    await start(() => given);
    ask('p', 'a');
    await answers(1);
    expect(verdicts.get('a')).toBe('unknown');
    expect(calls).toHaveLength(1);
  });

  it('end with the operator, also in the middle of a call', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    await start(async (call) => {
      await promise;
      return accepted(call);
    });
    ask('p', 'a');
    await waitFor(() => calls.length === 1, { what: 'the call' });
    await checks.stop();
    expect(api.ended).toHaveLength(1);
    ask('p', 'b');
    resolve();
    expect(verdicts.size).toBe(0);
  });
});

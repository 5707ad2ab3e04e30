// The API is away for a while, in each way that it can be, while objects are made, changed, deleted and robbed of their Secrets:
// all of it arrives once when it is back, and the operator says meanwhile what is wrong.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { ClusterGate } from './cluster-gate.ts';
import { collectLines } from './log-lines.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const disabled = { callback: { kind: 'disabled' } };
type Mode = 'refuses' | 'silent' | 'fails';

describe.skipIf(!hasCluster)('while the API is away', () => {
  let fixture: OperatorFixture;
  let gate: ClusterGate;
  /** Counts what the API gets. */
  let counting: RefusingProxy;
  let wire: TcpProxy;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  beforeEach(async () => {
    gate = await ClusterGate.start();
    counting = await RefusingProxy.start(fixture.apiFixture.url);
    wire = await TcpProxy.start(counting.url);
  });
  afterEach(async () => {
    await Promise.all([gate.close(), wire.close(), counting.close()]);
  });
  afterAll(() => fixture.close());

  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const synced = async (name: string) =>
    findCondition((await fixture.monitor(name)).status?.conditions, 'Synced');
  const recordOf = async (monitorId = '') =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body;
  const got = (method: string, path: RegExp) =>
    counting.forwarded.filter((call) => call.method === method && path.test(call.path)).length;

  const leave: Record<Mode, () => Promise<void>> = {
    refuses: () => wire.refuse(),
    silent: async () => wire.blackHole(),
    fails: async () => {
      counting.answer = () => ({ status: 503, headers: { 'retry-after': '1' } });
    },
  };
  const comeBack: Record<Mode, () => Promise<void>> = {
    refuses: () => wire.accept(),
    silent: async () => wire.forward(),
    fails: async () => {
      counting.answer = () => undefined;
    },
  };

  it.each(['refuses', 'silent', 'fails'] as const)(
    '(%s) whatever was asked for meanwhile arrives once when it is back',
    async (mode) => {
      const said = collectLines();
      const operator = await fixture.startOperator({
        ...gate.options,
        apiUrl: wire.url,
        log: said.log,
        timeoutMs: 5000,
      });
      const [old, gone, robbed, made] = ['old', 'gone', 'robbed', 'made'].map(
        (name) => `${mode}-${name}`,
      ) as [string, string, string, string];
      for (const name of [old, gone, robbed])
        await fixture.createMonitor(name, { graceSeconds: 120, ...disabled });
      await fixture.createCallback(robbed);
      const ready = [];
      for (const name of [old, gone, robbed]) ready.push(await fixture.monitorBecomes(name, 'Ready', 'True'));
      await fixture.callbackBecomes(robbed, 'Ready', 'True');
      const [oldId, goneId] = ready.map(({ status }) => status?.monitorId);
      const address = (await fixture.secret(`${robbed}-beat`))?.url;
      const feedUp = () => metricValue(operator.registry, 'beatkeeper_operator_feed_up', {});
      await waitFor(async () => (await feedUp()) === 1, { what: 'the feed is up' });
      counting.forwarded = [];

      const description = 'changed meanwhile';
      await leave[mode]();
      const { client } = fixture.kube;
      await fixture.createMonitor(made, { graceSeconds: 444, ...disabled });
      await client.mergePatch(MONITORS, ref(old), { spec: { graceSeconds: 333, description } });
      await client.delete(MONITORS, ref(gone));
      for (const name of [`${robbed}-beat`, `${robbed}-signing`]) await client.delete(SECRETS, ref(name));
      await client.mergePatch(CALLBACKS, ref(robbed), { spec: { lifecycle: 'disabled' } });
      for (const name of [old, gone, made])
        await waitFor(async () => (await synced(name))?.reason === 'ApiUnavailable', {
          what: `${name} says that the API is away`,
        });
      const isReady = findCondition((await fixture.monitor(old)).status?.conditions, 'Ready');
      expect(isReady?.status).toBe('True');
      await waitFor(async () => (await feedUp()) === 0, { what: 'the metric says so' });
      // A long poll that gets no answer takes its time: the third one in a row would be a minute later.
      const warned = () =>
        said.said('The status feed does not answer.').some(({ level }) => level === 'warn');
      if (mode !== 'silent') await waitFor(warned, { what: 'the log says so' });
      expect(counting.forwarded.filter(({ method }) => method !== 'GET')).toEqual([]);

      await comeBack[mode]();
      const { status } = await fixture.monitorBecomes(made, 'Ready', 'True');
      expect((await recordOf(status?.monitorId)).graceSeconds).toBe(444);
      await fixture.monitorBecomes(old, 'Synced', 'True');
      expect(await recordOf(oldId)).toMatchObject({ graceSeconds: 333, description });
      await waitFor(async () => (await client.find(MONITORS, ref(gone))) === undefined, {
        what: 'the deleted one is gone',
      });
      expect((await recordOf(goneId)).lifecycle).toBe('archived');
      await waitFor(async () => (await fixture.secret(`${robbed}-beat`))?.url === address, {
        what: 'the address is back',
      });
      await fixture.callbackBecomes(robbed, 'Ready', 'True', 'Disabled');
      await waitFor(async () => (await fixture.secret(`${robbed}-signing`))?.version === '2', {
        what: 'a new signing secret',
      });
      await waitFor(async () => (await feedUp()) === 1, { what: 'the feed is up again' });
      expect(said.said('The status feed answers again.')).toHaveLength(1);
      // Each change once, however often it was tried while nobody answered.
      expect([
        got('POST', /^\/v1\/monitors$/),
        got('PATCH', /^\/v1\/monitors\//),
        got('PATCH', /^\/v1\/callbacks\//),
      ]).toEqual([1, 1, 1]);
      expect([got('POST', /\/callbacks\/[^/]+\/rotate$/), got('POST', /publish-url/)]).toEqual([1, 0]);
      expect(gate.stored('POST', '/secrets')).toHaveLength(4 + 3);
      expect(said.errors()).toEqual([]);
      await operator.stop();
    },
  );
});

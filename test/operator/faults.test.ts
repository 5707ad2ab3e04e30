// The API or the cluster away, torn or slow: what users see meanwhile, and that all is right afterwards.
import { writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster, startClusterProxy } from '../kube/cluster.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator in trouble', () => {
  let fixture: OperatorFixture;
  let proxy: TcpProxy;
  let apiUrl: string;
  let operator: TestOperator | undefined;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    proxy = await TcpProxy.start(fixture.apiFixture.url);
    apiUrl = proxy.url;
  });
  afterEach(async () => {
    await operator?.stop();
    operator = undefined;
    await proxy.accept();
    proxy.forward();
  });
  afterAll(async () => {
    await fixture.close();
    await proxy.close();
  });
  const ref = (name: string) => ({ namespace: fixture.namespace, name });

  it('says that the API is away, keeps Ready, and goes on as soon as it is back', async () => {
    operator = await fixture.startOperator({ apiUrl });
    await fixture.createMonitor('early', disabled);
    await fixture.monitorBecomes('early', 'Ready', 'True');
    await proxy.refuse();
    await fixture.createMonitor('late', disabled);
    const late = await waitFor(
      async () => {
        const object = await fixture.monitor('late');
        return object.status?.conditions?.some(({ reason }) => reason === 'ApiUnavailable')
          ? object
          : undefined;
      },
      { what: 'late shows that the API is away' },
    );
    expect(late.status?.conditions?.find(({ type }) => type === 'Synced')?.status).toBe('False');
    expect(
      (await fixture.monitor('early')).status?.conditions?.find(({ type }) => type === 'Ready')?.status,
    ).toBe('True');
    await proxy.accept();
    await fixture.monitorBecomes('late', 'Ready', 'True');
    await fixture.beat('late-beat');
    await waitFor(async () => (await fixture.monitor('late')).status?.health === 'up', {
      what: 'the feed goes on',
    });
  });

  it('holds a deleted object while the API is away, and lets it go by force', async () => {
    operator = await fixture.startOperator({ apiUrl });
    await fixture.createMonitor('held', disabled);
    await fixture.createCallback('held');
    await fixture.monitorBecomes('held', 'Ready', 'True');
    await fixture.callbackBecomes('held', 'Ready', 'True');
    await proxy.refuse();
    await fixture.kube.client.delete(MONITORS, ref('held'));
    await fixture.kube.client.delete(CALLBACKS, ref('held'));
    await waitFor(
      async () =>
        (await fixture.monitor('held')).status?.conditions?.some(({ reason }) => reason === 'ApiUnavailable'),
      { what: 'it says why it is held' },
    );
    const force = { metadata: { annotations: { 'beatkeeper.dev/force-delete': 'true' } } };
    await fixture.kube.client.mergePatch(MONITORS, ref('held'), force);
    await fixture.kube.client.mergePatch(CALLBACKS, ref('held'), force);
    await waitFor(async () => (await fixture.kube.client.find(MONITORS, ref('held'))) === undefined, {
      what: 'it is gone',
    });
    await waitFor(async () => (await fixture.kube.client.find(CALLBACKS, ref('held'))) === undefined, {
      what: 'it is gone',
    });
    expect(await fixture.secret('held-beat')).toBeUndefined();
  });

  it('makes one monitor each although connections break all the time', async () => {
    operator = await fixture.startOperator({ apiUrl });
    const names = Array.from({ length: 12 }, (_, i) => `torn-${i}`);
    const { calls } = operator;
    const ended = () => [...calls.values()].reduce((sum, count) => sum + count, 0);
    const torn = tearEachFewCalls(proxy, ended);
    for (const name of names) await fixture.createMonitor(name, { ...disabled, lifecycle: 'paused' });
    for (const name of names) {
      await waitFor(async () => (await fixture.monitor(name)).status?.lifecycle === 'paused', { what: name });
    }
    // So many that creations were among them; their answers were lost, and they were made again.
    expect(await torn.stop()).toBeGreaterThan(names.length);
    const { rows } = await fixture.apiFixture.pool.query(
      "select count(*)::int as n from monitors where name like 'torn-%'",
    );
    expect(rows[0].n).toBe(names.length);
  });

  it('gives up on an API that is silent, and goes on with the next call', async () => {
    operator = await fixture.startOperator({ apiUrl, timeoutMs: 700 });
    proxy.blackHole();
    await fixture.createMonitor('silent', disabled);
    await waitFor(
      async () =>
        (await fixture.monitor('silent')).status?.conditions?.some(({ message }) =>
          message.includes('timeout'),
        ),
      { what: 'the time limit shows' },
    );
    proxy.forward();
    await fixture.monitorBecomes('silent', 'Ready', 'True');
  });

  it('takes up a token that was replaced', async () => {
    operator = await fixture.startOperator({ apiUrl });
    await writeFile(fixture.tokenFile, 'broken');
    await operator.stop();
    operator = await fixture.startOperator({ apiUrl });
    await fixture.createMonitor('signed', disabled);
    await waitFor(
      async () =>
        (await fixture.monitor('signed')).status?.conditions?.some(({ reason }) => reason === 'Unauthorized'),
      { what: 'it says that the operator may not' },
    );
    await writeFile(fixture.tokenFile, fixture.apiFixture.tokens.operator);
    await fixture.monitorBecomes('signed', 'Ready', 'True');
  });

  it('goes on after its watches were reset', async () => {
    const { proxy: toCluster, proxied } = await startClusterProxy();
    const makeTransport = (options: ConstructorParameters<typeof KubeTransport>[0]) =>
      new KubeTransport({ ...options, loadConfig: () => proxied });
    operator = await fixture.startOperator({ apiUrl, makeTransport });
    for (const name of ['one', 'two', 'three']) {
      toCluster.reset();
      await fixture.createMonitor(`watched-${name}`, disabled);
      await fixture.monitorBecomes(`watched-${name}`, 'Ready', 'True');
    }
    await operator.stop();
    await toCluster.close();
  });
});

/** Resets the connection of one call in three, in the middle of its answer: paced by the calls, not by the clock. */
function tearEachFewCalls(proxy: TcpProxy, ended: () => number): { stop(): Promise<number> } {
  const end = new AbortController();
  let torn = 0;
  const tear = async (): Promise<void> => {
    for (;;) {
      proxy.resetAfter(40);
      const next = ended() + 3;
      await waitFor(() => ended() >= next, { what: 'three more calls', intervalMs: 5, signal: end.signal });
      torn += 1;
    }
  };
  const tearing = tear().catch(() => undefined);
  return {
    async stop() {
      end.abort();
      await tearing;
      proxy.forward();
      return torn;
    },
  };
}

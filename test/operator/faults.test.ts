// The API or the cluster is away, breaks connections or is slow: what users see meanwhile, and the state afterwards.
import { writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ApiAnswer, type CallOptions, RestClient } from '../../src/client/rest-client.ts';
import type { OperationId, OperationRequest } from '../../src/contract/operations/operations.ts';
import { findCondition } from '../../src/kube/conditions.ts';
import { kubeErrorFromAnswer } from '../../src/kube/kube-error.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster, startClusterProxy } from '../kube/cluster.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

/** As a webhook that lets nobody delete what is at the path. */
class KeepingTransport extends KubeTransport {
  readonly #path: string;

  constructor(options: ConstructorParameters<typeof KubeTransport>[0], path: string) {
    super(options);
    this.#path = path;
  }

  override async request(request: KubeRequest): Promise<unknown> {
    if (request.method === 'DELETE' && request.path.endsWith(this.#path))
      throw kubeErrorFromAnswer(403, JSON.stringify({ kind: 'Status', message: 'Kept.', code: 403 }));
    return await super.request(request);
  }
}

/** Lets the proxy reset a connection in the middle of the answer to one of its first creations and changes. */
class TornClient extends RestClient {
  readonly #tear: { left: number; proxy: TcpProxy };

  constructor(options: ConstructorParameters<typeof RestClient>[0], tear: { left: number; proxy: TcpProxy }) {
    super(options);
    this.#tear = tear;
  }

  override async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options?: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    if (this.#tear.left > 0 && /^(create|change)Monitor/.test(operation)) {
      this.#tear.left -= 1;
      this.#tear.proxy.resetAfter(40);
    }
    return await super.call(operation, request, options);
  }
}

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

  it('while the API is away a new Monitor is ApiUnavailable and an old one stays ready, and both work when it is back', async () => {
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
      what: 'the feed continues',
    });
  });

  it('a deleted object stays while the API is away, and the force-delete annotation releases it', async () => {
    operator = await fixture.startOperator({ apiUrl });
    await fixture.createMonitor('held', disabled);
    await fixture.createCallback('held');
    await fixture.monitorBecomes('held', 'Ready', 'True');
    await fixture.callbackBecomes('held', 'Ready', 'True');
    await proxy.refuse();
    await fixture.kube.client.delete(MONITORS, ref('held'));
    await fixture.kube.client.delete(CALLBACKS, ref('held'));
    const deleted = await fixture.monitor('held');
    const synced = async () => findCondition((await fixture.monitor('held')).status?.conditions, 'Synced');
    await waitFor(async () => (await synced())?.reason === 'ApiUnavailable', {
      what: 'the status says why the Monitor stays',
    });
    expect((await synced())?.message).toMatch(
      / The deletion waits for the API since (.*)\. .* beatkeeper\.dev\/force-delete: "true": then the object goes without it\.$/,
    );
    expect((await synced())?.message).toContain(deleted.metadata.deletionTimestamp);
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

  it('a deleted object whose Secret the cluster does not let go says so, and the force-delete annotation releases it', async () => {
    operator = await fixture.startOperator({
      apiUrl,
      makeTransport: (options) => new KeepingTransport(options, '/secrets/kept-beat'),
    });
    await fixture.createMonitor('kept', disabled);
    await fixture.monitorBecomes('kept', 'Ready', 'True');
    await fixture.kube.client.delete(MONITORS, ref('kept'));
    const synced = async () => findCondition((await fixture.monitor('kept')).status?.conditions, 'Synced');
    await waitFor(async () => (await synced())?.reason === 'Refused', {
      what: 'the status says why it stays',
    });
    expect((await synced())?.message).toMatch(/ The deletion waits for the cluster since .* "true": then /);
    const force = { metadata: { annotations: { 'beatkeeper.dev/force-delete': 'true' } } };
    await fixture.kube.client.mergePatch(MONITORS, ref('kept'), force);
    await waitFor(async () => (await fixture.kube.client.find(MONITORS, ref('kept'))) === undefined, {
      what: 'it is gone',
    });
    expect((await fixture.eventAppears('kept', 'Released')).note).toContain('is left');
    expect(await fixture.secret('kept-beat')).toBeDefined();
  });

  it('each Monitor has one monitor although connections break in the middle of the answers to its creation', async () => {
    const names = Array.from({ length: 12 }, (_, i) => `torn-${i}`);
    // Then no more: each failure doubles the time to the next try.
    const tear = { left: 2 * names.length, proxy };
    operator = await fixture.startOperator({
      apiUrl,
      makeClient: (options) => new TornClient(options, tear),
    });
    for (const name of names) await fixture.createMonitor(name, { ...disabled, lifecycle: 'paused' });
    const arePaused = async () => {
      const monitors = await Promise.all(names.map((name) => fixture.monitor(name)));
      return monitors.every(({ status }) => status?.lifecycle === 'paused');
    };
    await waitFor(arePaused, { what: 'all are paused', timeoutMs: 220_000, intervalMs: 100 });
    // Answers to creations were lost: the next pass found the monitors.
    expect(operator.calls.get('setMonitorOrigin')).toBeGreaterThan(0);
    const { rows } = await fixture.apiFixture.pool.query(
      "select count(*)::int as n from monitors where name like 'torn-%'",
    );
    expect(rows[0].n).toBe(names.length);
  });

  it('a call to a silent API ends at its time limit, and a later call completes the work', async () => {
    operator = await fixture.startOperator({ apiUrl, timeoutMs: 700 });
    proxy.blackHole();
    await fixture.createMonitor('silent', disabled);
    await waitFor(
      async () =>
        (await fixture.monitor('silent')).status?.conditions?.some(({ message }) =>
          message.includes('timeout'),
        ),
      { what: 'the status names the time limit' },
    );
    proxy.forward();
    await fixture.monitorBecomes('silent', 'Ready', 'True');
  });

  it('the operator uses a replaced token without a restart', async () => {
    operator = await fixture.startOperator({ apiUrl });
    await writeFile(fixture.tokenFile, 'broken');
    await operator.stop();
    operator = await fixture.startOperator({ apiUrl });
    await fixture.createMonitor('signed', disabled);
    await waitFor(
      async () =>
        (await fixture.monitor('signed')).status?.conditions?.some(({ reason }) => reason === 'Unauthorized'),
      { what: 'the status says Unauthorized' },
    );
    await writeFile(fixture.tokenFile, fixture.apiFixture.tokens.operator);
    await fixture.monitorBecomes('signed', 'Ready', 'True');
  });

  it('the operator continues after its watches were reset', async () => {
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

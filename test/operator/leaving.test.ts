// The end of an installation: what the hook leaves behind, whatever fails meanwhile, and what a new install makes of it.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { releaseObjects } from '../../src/install/release-objects.ts';
import { findCondition } from '../../src/kube/conditions.ts';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { KubeError } from '../../src/kube/kube-error.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { adminKubeconfig, connect, createNamespace, hasCluster, type TestClient } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const FINALIZER = 'beatkeeper.dev/sync';
const MANAGED_BY = 'beatkeeper.dev/managed-by';
const OURS = 'monitoring/beatkeeper';
const lines: { msg: string; [fact: string]: unknown }[] = [];
const log = createLog(
  { role: 'finalizers', level: 'warn' },
  { write: (line: string) => void lines.push(JSON.parse(line)) },
);

/** Notes the calls, and fails those that `fault` names. */
class Watched extends KubeTransport {
  readonly calls: KubeRequest[] = [];
  fault: (request: KubeRequest) => number | undefined = () => undefined;
  #running = 0;
  most = 0;

  override async request(request: KubeRequest): Promise<unknown> {
    this.calls.push(request);
    const status = this.fault(request);
    if (status !== undefined)
      throw new KubeError(`HTTP ${status}`, { status, reason: 'Tested', retryAfterMs: 1 });
    this.#running += 1;
    this.most = Math.max(this.most, this.#running);
    return await super.request(request).finally(() => {
      this.#running -= 1;
    });
  }
}

describe.skipIf(!hasCluster)('the objects of a release that is uninstalled', () => {
  let test: TestClient;
  let namespace: string;
  let transport: Watched;
  beforeAll(() => {
    test = connect();
  });
  beforeEach(async () => {
    namespace = await createNamespace(test.client);
    const loadConfig = () => loadKubeConfig(adminKubeconfig);
    transport = new Watched({ loadConfig, userAgent: 'beatkeeper-setup/test' });
    return () => transport.close();
  });
  afterAll(() => test.close());

  const release = (watchNamespaces = [namespace]) =>
    releaseObjects(new KubeClient(transport), { watchNamespaces, release: OURS }, log);
  const read = (name: string) => test.client.get(MONITORS, { namespace, name });

  async function create(name: string, metadata: object = {}): Promise<MonitorObject> {
    const object = await test.client.create(MONITORS, {
      metadata: {
        name,
        namespace,
        finalizers: [FINALIZER],
        annotations: { [MANAGED_BY]: OURS },
        ...metadata,
      },
      spec: { intervalSeconds: 60 } as MonitorObject['spec'],
    });
    const condition = { reason: 'Up', message: 'm', lastTransitionTime: '2026-01-01T00:00:00Z' };
    const conditions = ['Synced', 'Ready'].map((type) => ({ type, status: 'True', ...condition }));
    const status = { health: 'up', observedGeneration: 1, conditions };
    return await test.client.mergePatch(MONITORS, object.metadata, { status }, { subresource: 'status' });
  }

  it('loses finalizer and claim, and its status says that nobody keeps it up to date', async () => {
    await create('backup', { finalizers: ['example.org/other', FINALIZER] });
    expect(await release()).toBe(1);
    const { metadata, status } = await read('backup');
    expect(metadata.finalizers).toEqual(['example.org/other']);
    expect(metadata.annotations?.[MANAGED_BY]).toBeUndefined();
    expect(status).toMatchObject({ health: 'unknown', observedGeneration: 1 });
    for (const type of ['Synced', 'Ready'])
      expect(findCondition(status?.conditions, type)).toMatchObject({
        status: 'Unknown',
        reason: 'NotInstalled',
      });
    transport.calls.length = 0;
    expect(await release()).toBe(0);
    expect(transport.calls.filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  it('another release keeps its objects', async () => {
    await create('theirs', { annotations: { [MANAGED_BY]: 'elsewhere/beatkeeper' } });
    expect(await release()).toBe(0);
    const { metadata, status } = await read('theirs');
    expect(metadata.finalizers).toEqual([FINALIZER]);
    expect(status?.health).toBe('up');
  });

  it('an object that is being deleted goes', async () => {
    await create('leaving');
    await test.client.delete(MONITORS, { namespace, name: 'leaving' });
    expect(await release()).toBe(1);
    expect(await test.client.find(MONITORS, { namespace, name: 'leaving' })).toBeUndefined();
  });

  it('hundreds are released by pages, some at once, whatever their number', async () => {
    const names = Array.from({ length: 620 }, (_, index) => `job-${index}`);
    for (let from = 0; from < names.length; from += 31)
      await Promise.all(names.slice(from, from + 31).map((name) => create(name)));
    transport.calls.length = 0;
    expect(await release()).toBe(names.length);
    const lists = transport.calls.filter(
      ({ method, path }) => method === 'GET' && path.endsWith('/monitors'),
    );
    expect(lists.map(({ query }) => query?.limit)).toEqual([500, 500]);
    expect(transport.most).toBeLessThanOrEqual(16);
    const { items } = await test.client.list(MONITORS, { namespace });
    expect(items.filter(({ metadata }) => metadata.finalizers !== undefined)).toEqual([]);
  });

  it('a page that is too old begins the list again, and the rest is released', async () => {
    for (const name of ['a', 'b']) await create(name);
    const isSecond = ({ query }: KubeRequest) => query?.continue !== undefined;
    // One object on a page, and a token that has expired by the first use.
    let hasExpired = false;
    const list = transport.request.bind(transport);
    transport.request = async (request) =>
      await list(
        request.query?.limit === undefined ? request : { ...request, query: { ...request.query, limit: 1 } },
      );
    transport.fault = (request) => {
      if (!isSecond(request) || hasExpired) return undefined;
      hasExpired = true;
      return 410;
    };
    expect(await release()).toBe(2);
    expect(hasExpired).toBe(true);
  });

  it('a busy API server is asked again, and what it refuses for good holds up no other object', async () => {
    for (const name of ['a', 'b', 'stuck', 'z']) await create(name);
    const seen = new Set<string>();
    transport.fault = ({ method, path }) => {
      if (method !== 'PATCH') return undefined;
      if (path.endsWith('/stuck')) return 403;
      const isFirst = !seen.has(path);
      seen.add(path);
      return isFirst ? 429 : undefined;
    };
    await expect(release()).rejects.toThrow(/^1 objects still have the finalizer .*, and 3 were released\./);
    for (const name of ['a', 'b', 'z']) expect((await read(name)).metadata.finalizers).toBeUndefined();
    transport.fault = () => undefined;
    expect(await release()).toBe(1);
  });

  it('an object that somebody writes all the time keeps nobody from the uninstall', async () => {
    for (const name of ['busy', 'z']) await create(name);
    transport.fault = ({ method, path }) => (method === 'PATCH' && path.includes('/busy') ? 409 : undefined);
    expect(await release()).toBe(1);
    expect((await read('busy')).metadata.finalizers).toEqual([FINALIZER]);
    const last = lines.at(-1);
    expect(last).toMatchObject({ count: 1, left: 1, objects: [`Monitor ${namespace}/busy`] });
    expect(last?.msg).toContain(`patch KIND NAME --type merge --patch '{"metadata":{"finalizers":null}}'`);
  });

  it('an object that somebody wrote all the time is tried once more when the others are done', async () => {
    for (const name of ['busy', 'z']) await create(name);
    const isDone = () => transport.calls.some(({ path }) => path.includes('/callbacks'));
    transport.fault = ({ method, path }) =>
      method === 'PATCH' && path.includes('/busy') && !isDone() ? 409 : undefined;
    expect(await release()).toBe(2);
    expect((await read('busy')).metadata.finalizers).toBeUndefined();
  });

  it('an object that changed since it was listed is released as it is now', async () => {
    await create('changing');
    let hasChanged = false;
    const send = transport.request.bind(transport);
    transport.request = async (request) => {
      if (request.method === 'PATCH' && !hasChanged) {
        hasChanged = true;
        const finalizers = [FINALIZER, 'example.org/late'];
        await test.client.mergePatch(MONITORS, { namespace, name: 'changing' }, { metadata: { finalizers } });
      }
      return await send(request);
    };
    expect(await release()).toBe(1);
    expect((await read('changing')).metadata.finalizers).toEqual(['example.org/late']);
  });

  it('a named namespace that is gone or closed is left, and the others are released', async () => {
    await create('backup');
    const closed = await createNamespace(test.client);
    transport.fault = ({ path }) => (path.includes(closed) ? 403 : undefined);
    expect(await release([closed, `${closed}-gone`, namespace])).toBe(1);
    transport.fault = ({ path }) => (path.endsWith('/monitors') ? 403 : undefined);
    await expect(release([])).rejects.toThrow('HTTP 403');
  });
});

describe.skipIf(!hasCluster)('a new install', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  it('brings back what the uninstall has taken from the status, and changes nothing at the API', async () => {
    const { namespace, kube } = fixture;
    const operator = await fixture.startOperator();
    await fixture.createCallback('oncall');
    await fixture.createMonitor('backup', { callback: { kind: 'named', callbackRef: { name: 'oncall' } } });
    const before = await fixture.monitorBecomes('backup', 'Ready', 'True');
    const address = await fixture.secret('backup-beat');
    await operator.stop();
    await releaseObjects(kube.client, { watchNamespaces: [namespace] }, log);
    const gone = await fixture.monitor('backup');
    expect(gone.status?.health).toBe('unknown');
    expect(gone.metadata.finalizers).toBeUndefined();

    await fixture.startOperator();
    for (const type of ['Synced', 'Ready']) await fixture.monitorBecomes('backup', type, 'True');
    await fixture.callbackBecomes('oncall', 'Ready', 'True');
    const isBack = async () => (await fixture.monitor('backup')).status?.health === before.status?.health;
    await waitFor(isBack, { what: 'the health is back' });
    const { metadata, status } = await fixture.monitor('backup');
    expect(metadata.finalizers).toEqual([FINALIZER]);
    expect(status?.monitorId).toBe(before.status?.monitorId);
    expect(status?.configurationVersion).toBe(before.status?.configurationVersion);
    expect(status?.conditions?.filter(({ reason }) => reason === 'NotInstalled')).toEqual([]);
    expect(await fixture.secret('backup-beat')).toEqual(address);
  });
});

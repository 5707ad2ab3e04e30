import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  findControlPlaneBinaries,
  HOW_TO_GET_A_CONTROL_PLANE,
} from '../../src/dev/control-plane/control-plane-binaries.ts';
import { applyManifest, type Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { waitFor } from '../support/wait-for.ts';
import { DevelopmentRun, END_LIMIT_MS, makeStateFolder, type ReadyFields } from './development-run.ts';

interface Monitor extends KubeObject {
  status?: { health?: string; conditions?: { type: string; status: string; message?: string }[] };
}
interface Secret extends KubeObject {
  data?: Record<string, string>;
}

const API_VERSION = 'beatkeeper.dev/v1alpha1';
const MONITORS: KubeResource<Monitor> = {
  apiVersion: API_VERSION,
  kind: 'Monitor',
  plural: 'monitors',
  namespaced: true,
};
const SECRETS: KubeResource<Secret> = {
  apiVersion: 'v1',
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
};

const hasControlPlane =
  process.env.TEST_KUBECONFIG !== undefined || (await findControlPlaneBinaries(console.error)) !== undefined;
if (!hasControlPlane) {
  if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
  console.error(`npm run dev is not tested with a cluster. ${HOW_TO_GET_A_CONTROL_PLANE}`);
}

describe.skipIf(!hasControlPlane)('npm run dev with a cluster', () => {
  let state: Awaited<ReturnType<typeof makeStateFolder>>;
  let run: DevelopmentRun;
  let ready: ReadyFields;
  let cluster: Cluster;

  beforeAll(async () => {
    state = await makeStateFolder();
    run = new DevelopmentRun(state.folder, { env: { BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '2' } });
    ready = await run.ready(200_000);
    cluster = connectCluster(ready.kubeconfig);
  });
  afterAll(async () => {
    await cluster.transport.close();
    await run.stop();
    await state.remove();
  });

  const untilReady = (name: string) =>
    waitFor(
      async () => {
        const { status } = await cluster.client.get(MONITORS, { namespace: 'default', name });
        const condition = status?.conditions?.find(({ type }) => type === 'Ready');
        if (condition?.status === 'True') return true;
        throw new Error(JSON.stringify(status));
      },
      { what: `the Monitor ${name} is ready`, timeoutMs: 120_000 },
    );

  const untilHealth = (name: string, health: string) =>
    waitFor(
      async () => {
        const { status } = await cluster.client.get(MONITORS, { namespace: 'default', name });
        if (status?.health === health) return true;
        throw new Error(JSON.stringify(status));
      },
      { what: `the Monitor ${name} is ${health}`, timeoutMs: 120_000 },
    );

  async function publishUrl(name: string): Promise<string> {
    const { data } = await cluster.client.get(SECRETS, { namespace: 'default', name: `${name}-beat` });
    return Buffer.from(data?.url ?? '', 'base64').toString();
  }

  const applyMonitor = (name: string, spec: object) =>
    applyManifest(
      cluster,
      { apiVersion: API_VERSION, kind: 'Monitor', metadata: { name }, ...{ spec } } as KubeObject,
      { namespace: 'default', force: true },
    );

  test('starts a control plane and the operator, and says where the kubeconfig is', () => {
    for (const role of ['postgres', 'etcd', 'kube-apiserver', 'api', 'sweeper', 'operator']) {
      expect(run.pids(role), role).toHaveLength(1);
    }
    expect(ready.kubeconfig).toBeDefined();
    expect(run.stderr).toContain(ready.kubeconfig);
  });

  test('the examples are applied and work', async () => {
    await untilReady('nightly-backup');
    await untilReady('queue-worker');
    expect((await fetchServed(await publishUrl('queue-worker'))).status).toBe(200);
    await untilHealth('queue-worker', 'up');
  });

  test('the namespace default is the project default', async () => {
    const answer = await fetchServed(`${ready.api}/v1/monitors`, {
      headers: { authorization: `Bearer ${ready.credential}` },
    });
    const { items } = (await answer.json()) as { items: { name: string }[] };
    expect(items.map(({ name }) => name)).toEqual(expect.arrayContaining(['Nightly backup', 'Queue worker']));
  });

  test('floors are lowered, so that a missed deadline is seen in seconds', async () => {
    await applyMonitor('quick', { intervalSeconds: 2, graceSeconds: 2, callback: { kind: 'disabled' } });
    await untilReady('quick');
    // Beaten until it is seen: on a slow machine one beat may be over by then.
    const url = await publishUrl('quick');
    const beating = setInterval(() => void fetch(url).catch(() => undefined), 500);
    await untilHealth('quick', 'up').finally(() => clearInterval(beating));
    await untilHealth('quick', 'down');
  });

  test("the cluster's own issuer is trusted", async () => {
    const issued = (await cluster.transport.request({
      method: 'POST',
      path: '/api/v1/namespaces/beatkeeper-system/serviceaccounts/beatkeeper-viewer/token',
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { audiences: ['beatkeeper'], expirationSeconds: 600 },
      },
    })) as { status: { token: string } };
    const headers = { authorization: `Bearer ${issued.status.token}`, 'service-project': 'default' };
    expect((await fetchServed(`${ready.api}/v1/monitors`, { headers })).status).toBe(200);
    const body = JSON.stringify({ name: 'not allowed' });
    const post = {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': 'x1', 'content-type': 'application/json' },
    };
    expect((await fetchServed(`${ready.api}/v1/monitors`, { ...post, body })).status).toBe(403);
  });

  test.each(['etcd', 'kube-apiserver', 'operator'])(
    'a killed %s is started again and all of it works',
    async (role) => {
      const stable = ['postgres', 'api', 'sweeper'];
      const before = stable.map((other) => run.pids(other).length);
      await run.killAndAwaitNext(role);
      const name = `after-${role}`;
      const applied = () => applyMonitor(name, { intervalSeconds: 60, callback: { kind: 'disabled' } });
      await waitFor(applied, { what: 'the cluster takes an object', timeoutMs: 120_000 });
      await untilReady(name);
      expect(stable.map((other) => run.pids(other).length)).toEqual(before);
    },
  );

  test('ends within 10 s and leaves no process', async () => {
    process.kill(-run.npmPid, 'SIGINT');
    const { code, tookMs } = await run.exit();
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(END_LIMIT_MS);
    expect(await run.leftovers()).toEqual([]);
  });
});

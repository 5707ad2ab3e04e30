import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  findControlPlaneBinaries,
  HOW_TO_GET_A_CONTROL_PLANE,
} from '../../src/dev/control-plane/control-plane-binaries.ts';
import { applyManifest, type Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import { DevelopmentRun, END_LIMIT_MS, makeStateFolder, type ReadyFields } from './development-run.ts';

interface Monitor extends KubeObject {
  status?: { health?: string; conditions?: { type: string; status: string; message?: string }[] };
}
interface Secret extends KubeObject {
  data?: Record<string, string>;
}

const KUBECTL_BEAT = fileURLToPath(new URL('../../src/kubectl/main.ts', import.meta.url));
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
      { what: `the Monitor ${name} is ready`, timeoutMs: 300_000 },
    );

  const untilHealth = (name: string, health: string) =>
    waitFor(
      async () => {
        const { status } = await cluster.client.get(MONITORS, { namespace: 'default', name });
        if (status?.health === health) return true;
        throw new Error(JSON.stringify(status));
      },
      { what: `the Monitor ${name} is ${health}`, timeoutMs: 300_000 },
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

  test('npm run dev starts a control plane and the operator, and prints the path of the kubeconfig', () => {
    for (const role of ['postgres', 'etcd', 'kube-apiserver', 'api', 'sweeper', 'operator']) {
      expect(run.pids(role), role).toHaveLength(1);
    }
    expect(ready.kubeconfig).toBeDefined();
    expect(run.stderr).toContain(ready.kubeconfig);
  });

  test('npm run dev applies the examples, whose Monitors become ready and take beats', async () => {
    await untilReady('nightly-backup');
    await untilReady('queue-worker');
    expect((await fetchServed(await publishUrl('queue-worker'))).status).toBe(200);
    await untilHealth('queue-worker', 'up');
  });

  test('monitors of the namespace default are in the project default', async () => {
    const answer = await fetchServed(`${ready.api}/v1/monitors`, {
      headers: { authorization: `Bearer ${ready.credential}` },
    });
    const { items } = (await answer.json()) as { items: { name: string }[] };
    expect(items.map(({ name }) => name)).toEqual(expect.arrayContaining(['Nightly backup', 'Queue worker']));
  });

  test('a Monitor may have an interval of 2 s and shows a missed deadline within seconds', async () => {
    await applyMonitor('quick', { intervalSeconds: 2, graceSeconds: 2, callback: { kind: 'disabled' } });
    await untilReady('quick');
    // It beats until the status shows up: on a slow machine one beat could expire before.
    const url = await publishUrl('quick');
    const beating = setInterval(() => void fetch(url).catch(() => undefined), 500);
    await untilHealth('quick', 'up').finally(() => clearInterval(beating));
    await untilHealth('quick', 'down');
  });

  test('kubectl beat finds the API of the run by the kubeconfig alone', async () => {
    const beat = (...args: string[]) =>
      runProgram(process.execPath, [KUBECTL_BEAT, ...args], {
        env: { PATH: process.env.PATH, HOME: state.folder, KUBECONFIG: ready.kubeconfig },
      });
    const explained = await beat('explain', 'nightly-backup', '-o', 'json');
    expect(explained, explained.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(explained.stdout)).toMatchObject({ namespace: 'default', health: 'waiting' });
    const sent = await beat('send', 'nightly-backup');
    expect(sent, sent.stderr).toMatchObject({ code: 0 });
  });

  test("the API accepts a token from the cluster's own issuer, with the rights of its role", async () => {
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
    'npm run dev starts a killed %s again, and Monitors become ready',
    async (role) => {
      const stable = ['postgres', 'api', 'sweeper'];
      const before = stable.map((other) => run.pids(other).length);
      await run.killAndAwaitNext(role);
      const name = `after-${role}`;
      const applied = () => applyMonitor(name, { intervalSeconds: 60, callback: { kind: 'disabled' } });
      await waitFor(applied, { what: 'the cluster accepts an object', timeoutMs: 300_000 });
      await untilReady(name);
      expect(stable.map((other) => run.pids(other).length)).toEqual(before);
    },
  );

  test('npm run dev ends after SIGINT within its time limit and leaves no process', async () => {
    process.kill(-run.npmPid, 'SIGINT');
    const { code, tookMs } = await run.exit();
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(END_LIMIT_MS);
    expect(await run.leftovers()).toEqual([]);
  });
});

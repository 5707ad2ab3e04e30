// Kills operator, api, sweeper and Postgres with SIGKILL while objects are created, changed and deleted. In the end each
// object has one monitor, every Secret is right, and nothing is left of deleted objects.
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  findControlPlaneBinaries,
  HOW_TO_GET_A_CONTROL_PLANE,
} from '../../src/dev/control-plane/control-plane-binaries.ts';
import { applyManifest, type Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { isNotFound } from '../../src/kube/kube-error.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { CALLBACKS, type CallbackObject } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { DevelopmentRun, makeStateFolder } from '../dev/development-run.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { waitFor } from '../support/wait-for.ts';
import { type AlertReceiver, startAlertReceiver } from './alert-receiver.ts';
import { ProductClient } from './product-client.ts';

const KILLS = process.env.BEATKEEPER_TEST_LENGTH === 'short' ? 5 : 20;

let state: Awaited<ReturnType<typeof makeStateFolder>>;
let run: DevelopmentRun;
let cluster: Cluster;
let client: ProductClient;
let receiver: AlertReceiver;

beforeAll(async () => {
  if (!(await findControlPlaneBinaries(console.error))) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
  state = await makeStateFolder();
  receiver = await startAlertReceiver();
  run = new DevelopmentRun(state.folder, { args: ['--no-examples'] });
  const ready = await run.ready(200_000);
  client = new ProductClient(ready);
  cluster = connectCluster(ready.kubeconfig);
});
afterAll(async () => {
  await cluster?.transport.close();
  await run?.stop();
  await receiver?.close();
  await state?.remove();
});

const at = (name: string) => ({ namespace: 'default', name });

/** Applies an object, again until the API server accepts it. */
function apply({ apiVersion, kind }: KubeResource, name: string, spec: object) {
  const object = { apiVersion, kind, metadata: { name }, ...{ spec } } as KubeObject;
  return waitFor(
    async () => (await applyManifest(cluster, object, { namespace: 'default', force: true })) ?? true,
    {
      what: `${kind} ${name} is applied`,
      timeoutMs: 300_000,
    },
  );
}

function untilReady<T extends MonitorObject | CallbackObject>(of: KubeResource<T>, name: string) {
  return waitFor(
    async () => {
      const object = await cluster.client.get(of, at(name));
      const ready = object.status?.conditions?.find(({ type }) => type === 'Ready');
      if (ready?.status === 'True') return object;
      throw new Error(JSON.stringify(object.status));
    },
    { what: `${of.kind} ${name} is ready`, timeoutMs: 300_000 },
  );
}

const decoded = async (name: string, key: string) => {
  const { data } = await cluster.client.get(SECRETS, at(name));
  return Buffer.from(data?.[key] ?? '', 'base64').toString();
};

it('after kills of all roles each Monitor has one monitor and the right Secrets', async () => {
  const monitorSpec = (graceSeconds: number) => ({
    intervalSeconds: 3600,
    graceSeconds,
    callback: { kind: 'named', callbackRef: { name: 'oncall' } },
  });
  await apply(CALLBACKS, 'oncall', { url: receiver.url });
  const names: string[] = [];
  for (let kill = 0; kill < KILLS; kill += 1) {
    const name = `job-${kill}`;
    // The operator is in the middle of this Monitor when it dies.
    await apply(MONITORS, name, monitorSpec(60));
    names.push(name);
    await run.killAndAwaitNext('operator');
    await apply(MONITORS, name, monitorSpec(600 + kill));
    if (kill % 4 === 3) {
      const deleted = names.shift() ?? '';
      await untilReady(MONITORS, deleted);
      await cluster.client.delete(MONITORS, at(deleted));
      await run.killAndAwaitNext('operator');
    }
    await run.killAndAwaitNext(['api', 'postgres', 'sweeper'][kill % 3] ?? 'api');
  }

  const callback = await untilReady(CALLBACKS, 'oncall');
  const objects = [];
  for (const name of names) objects.push(await untilReady(MONITORS, name));
  await waitFor(
    async () => (await cluster.client.list(MONITORS, { namespace: 'default' })).items.length === names.length,
    {
      what: 'deleted Monitors are gone',
      timeoutMs: 300_000,
    },
  );

  interface Listed {
    monitorId: string;
    graceSeconds: number;
    publishUrl: string;
  }
  const active = await client.call<{ items: Listed[] }>('GET', '/v1/monitors?lifecycle=active&limit=200');
  const byId = new Map(active.items.map((monitor) => [monitor.monitorId, monitor]));
  expect([...byId.keys()].sort()).toEqual(objects.map(({ status }) => status?.monitorId).sort());
  for (const { metadata, status } of objects) {
    const name = metadata?.name ?? '';
    const monitor = byId.get(status?.monitorId ?? '');
    expect(monitor?.graceSeconds).toBe(600 + Number(name.slice('job-'.length)));
    expect(await decoded(`${name}-beat`, 'url')).toBe(monitor?.publishUrl);
    expect((await fetchServed(monitor?.publishUrl ?? '')).status).toBe(200);
  }
  const archived = await client.call<{ items: Listed[] }>('GET', '/v1/monitors?lifecycle=archived&limit=200');
  expect(archived.items).toHaveLength(Math.floor(KILLS / 4));
  for (let kill = 0; kill < Math.floor(KILLS / 4); kill += 1) {
    await expect(cluster.client.get(SECRETS, at(`job-${kill}-beat`))).rejects.toSatisfy(isNotFound);
  }

  const endpoints = await client.call<{ items: { id: string }[] }>('GET', '/v1/callbacks');
  expect(endpoints.items.map(({ id }) => id)).toEqual([callback.status?.endpointId]);
  receiver.secret = await decoded('oncall-signing', 'secret');
  const monitorUrl = byId.get(objects[0]?.status?.monitorId ?? '')?.publishUrl;
  expect((await fetchServed(`${monitorUrl}/fail`)).status).toBe(200);
  await waitFor(() => receiver.received.length > 0, { what: 'the alert' });
  expect(receiver.unverified).toBe(0);
  console.log(
    `${run.pids('operator').length - 1} operators killed: ${names.length} Monitors, each with its own monitor and Secret.`,
  );
});

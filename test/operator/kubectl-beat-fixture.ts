// Shared by the tests of `kubectl beat`: an operator and an api that trusts the cluster's tokens, the accounts that stand for
// roles, and kubeconfigs of people with few rights.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { writeKubeconfigWithApi } from '../../src/dev/control-plane/kubeconfig-api.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { RULES } from '../../src/operator/kinds/rule/rule-object.ts';
import { adminKubeconfig } from '../kube/cluster.ts';
import { mountAccount, serviceAccounts, tokenOf, trustCluster } from '../kube/service-accounts.ts';
import { openApiFixture } from '../support/api-fixture.ts';
import { compileCache } from '../support/compile-cache.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const SPEC = { intervalSeconds: 3_600, callback: { kind: 'disabled' } };

export const KUBECTL_BEAT = fileURLToPath(new URL('../../src/kubectl/main.ts', import.meta.url));

export interface BeatFixture extends OperatorFixture {
  /** Of the administrator; its context says where the API is. */
  kubeconfig: string;
  /** Of the administrator; its context says nothing of an API. */
  plainKubeconfig: string;
  /** Where the api that trusts the cluster listens. */
  trustingUrl: string;
  folder: string;
  /** Starts the operator again after `stopOperator`, or does nothing. */
  startAgain(): Promise<void>;
  stopOperator(): Promise<void>;
  /** Creates a Monitor that alerts nobody, and resolves when it is ready. */
  createReady(name: string, spec?: object, metadata?: object): Promise<MonitorObject>;
  /** The same, and reports a failure. Resolves when it is down, with its open incident. */
  createDown(name: string, metadata?: object): Promise<{ incidentId: string }>;
  healthBecomes(name: string, health: string): Promise<unknown>;
  /** Deletes all Monitors and Rules of the namespace: for `afterEach`, so that no test sees those of another. */
  clear(): Promise<void>;
  /**
   * Runs `kubectl-beat` from its source, with the administrator's kubeconfig. Throws if it prints a token or, but for the
   * command url, a publish address.
   */
  beatctl(...args: string[]): Promise<Outcome>;
  /** The same, and parses its standard output. Throws if its exit code is not `code`, default 0. */
  beatJson<T>(args: readonly string[], code?: number): Promise<T>;
  /** Runs it with another kubeconfig. */
  beatctlAs(kubeconfig: string, ...args: string[]): Promise<Outcome>;
  /** A kubeconfig of an account with these rights in the namespace, and no others. */
  kubeconfigOf(name: string, rules: readonly object[]): Promise<string>;
  create(
    resource: { apiVersion: string; kind: string; plural: string },
    object: KubeObject,
  ): Promise<KubeObject>;
}

export async function openBeatFixture(): Promise<BeatFixture> {
  const namespace = `kube-${randomUUID()}`;
  const folder = await mkdtemp(join(tmpdir(), 'kubectl-beat-'));
  // The default of an installation: a name that leads nowhere from outside of the cluster.
  const publicUrl = `http://beatkeeper-api.${namespace}.svc`;
  const apiFixture = await openApiFixture({ config: { publicUrl } });
  const fixture = await openOperatorFixture({ kubeconfig: adminKubeconfig, namespace, apiFixture });
  const account = (role: string) => ({ namespace, name: `beatkeeper-${role}` });
  for (const role of ['viewer', 'member', 'owner']) {
    await fixture.kube.client.create(serviceAccounts, { metadata: account(role) });
  }
  const tokenFile = await mountAccount(fixture.kube, { namespace, name: 'api' }, { folder });
  const roles = Object.fromEntries(
    (['viewer', 'member', 'owner'] as const).map((role) => [
      `system:serviceaccount:${namespace}:beatkeeper-${role}`,
      role,
    ]),
  );
  const issuer = await trustCluster(roles, { folder, tokenFile });
  const { url: trustingUrl } = await apiFixture.startReplica({ publicUrl, issuers: [issuer] });
  const startOperator = () => fixture.startOperator({ release: `${namespace}/beatkeeper` });
  let operator: TestOperator | undefined = await startOperator();
  const kubeconfig = join(folder, 'kubeconfig');
  await writeKubeconfigWithApi(adminKubeconfig, kubeconfig, {
    url: trustingUrl,
    release: `${namespace}/beatkeeper`,
  });
  const beatctlAs = async (file: string, ...args: string[]) => {
    const outcome = await runProgram(process.execPath, [KUBECTL_BEAT, ...args, '--namespace', namespace], {
      env: { PATH: process.env.PATH, HOME: folder, KUBECONFIG: file, ...compileCache },
    });
    requireNoSecret(args, outcome);
    return outcome;
  };
  const beatctl = (...args: string[]) => beatctlAs(kubeconfig, ...args);
  const { client } = fixture.kube;
  const createReady = async (name: string, spec: object = {}, metadata: object = {}) => {
    await fixture.createMonitor(name, { ...SPEC, ...spec }, metadata);
    return await fixture.monitorBecomes(name, 'Ready', 'True');
  };
  const healthBecomes = (name: string, health: string) =>
    waitFor(async () => (await fixture.monitor(name)).status?.health === health, {
      what: `${name} is ${health}`,
    });
  const createDown = async (name: string, metadata: object = {}) => {
    await createReady(name, {}, metadata);
    await fixture.beat(`${name}-beat`, '/fail');
    await healthBecomes(name, 'down');
    const openOf = async () => (await fixture.monitor(name)).status?.openIncidents?.[0];
    const { incidentId = '' } = (await waitFor(openOf, { what: `${name} has an incident` })) ?? {};
    return { incidentId };
  };
  return {
    ...fixture,
    ...{ kubeconfig, plainKubeconfig: adminKubeconfig, trustingUrl, folder, beatctl, beatctlAs },
    ...{ createReady, createDown, healthBecomes },
    async stopOperator() {
      await operator?.stop();
      operator = undefined;
    },
    async startAgain() {
      operator ??= await startOperator();
    },
    async clear() {
      for (const resource of [MONITORS, RULES]) {
        const { items } = await client.list<KubeObject>(resource, { namespace });
        for (const { metadata } of items) await client.delete(resource, { namespace, name: metadata.name });
        const isEmpty = async () =>
          (await client.list<KubeObject>(resource, { namespace })).items.length === 0;
        await waitFor(isEmpty, { what: `no ${resource.plural} are left` });
      }
    },
    async beatJson<T>(args: readonly string[], code = 0) {
      const outcome = await beatctl(...args, '-o', 'json');
      if (outcome.code !== code) throw new Error(`exit code ${outcome.code}: ${outcome.stderr}`);
      return JSON.parse(outcome.stdout) as T;
    },
    async kubeconfigOf(name, rules) {
      await fixture.kube.client.create(serviceAccounts, { metadata: { namespace, name } });
      await createRole(fixture, name, rules);
      const token = await tokenOf(fixture.kube, { namespace, name });
      const file = join(folder, name);
      await writeFile(file, kubeconfigText(token), { mode: 0o600 });
      return file;
    },
    create: (resource, object) =>
      fixture.kube.client.create(
        { ...resource, namespaced: object.metadata.namespace !== undefined },
        object,
      ),
    async close() {
      await fixture.close();
      await apiFixture.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Each test checks what it has printed, whichever command it runs. */
function requireNoSecret(args: readonly string[], { stdout, stderr }: Outcome): void {
  const secrets = args[0] === 'url' ? ['eyJ'] : ['eyJ', '/ping/'];
  for (const text of [stdout, stderr]) {
    const found = secrets.find((secret) => text.includes(secret));
    if (found !== undefined) throw new Error(`kubectl beat ${args.join(' ')} prints a secret: ${text}`);
  }
}

const RBAC = { apiVersion: 'rbac.authorization.k8s.io/v1', namespaced: true } as const;
const ROLE: KubeResource = { ...RBAC, kind: 'Role', plural: 'roles' };
const BINDING: KubeResource = { ...RBAC, kind: 'RoleBinding', plural: 'rolebindings' };

async function createRole(
  { kube, namespace }: OperatorFixture,
  name: string,
  rules: readonly object[],
): Promise<void> {
  const metadata = { namespace, name };
  await kube.client.create(ROLE, { metadata, rules } as KubeObject);
  await kube.client.create(BINDING, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  } as KubeObject);
}

function kubeconfigText(token: string): string {
  const cluster = loadKubeConfig(adminKubeconfig).getCurrentCluster();
  const name = 'person';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [
      {
        name,
        cluster: {
          server: cluster?.server,
          ...(cluster?.caData ? { 'certificate-authority-data': cluster.caData } : {}),
          ...(cluster?.caFile ? { 'certificate-authority': cluster.caFile } : {}),
        },
      },
    ],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
  });
}

// Shared by the tests of the operator: a namespace of the control plane, an api on a fresh database, operators on both.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { RestClient } from '../../src/client/rest-client.ts';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { type KubeLog, silentLog } from '../../src/kube/kube-log.ts';
import { createKubeMetrics } from '../../src/kube/kube-metrics.ts';
import type { KubeObject, KubeResource, ObjectRef } from '../../src/kube/kube-object.ts';
import { KubeTransport, type KubeTransportOptions } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import type { ReflectorTuning } from '../../src/kube/reflector.ts';
import { CALLBACKS, type CallbackObject } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { RULES, type RuleObject } from '../../src/operator/kinds/rule/rule-object.ts';
import type { SharedProject } from '../../src/operator/known/shared-projects.ts';
import type { Orphans } from '../../src/operator/operator-context.ts';
import { createOperatorMetrics } from '../../src/operator/operator-metrics.ts';
import type { OperatorRuntime } from '../../src/operator/operator-runtime.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { composeOperator } from '../../src/operator/start-operator.ts';
import { adminKubeconfig, connect, createNamespace, type TestClient } from '../kube/cluster.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';

export interface EventObject extends KubeObject {
  type: string;
  reason: string;
  note: string;
  deprecatedCount?: number;
  regarding: { kind: string; name: string; uid: string };
}
const EVENTS: KubeResource<EventObject> = {
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
  plural: 'events',
  namespaced: true,
};

const LEASES: KubeResource = {
  ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', plural: 'leases', namespaced: true },
};
const LEASE_NAME = 'test-operator';

export interface OperatorOptions {
  /** Default: the api, without a proxy. */
  apiUrl?: string;
  /** Default: the namespace of the fixture. Empty: all. */
  watchNamespaces?: string[];
  resyncMs?: number;
  lastBeatPeriodMs?: number;
  beatWritesPerSecond?: number;
  defaultCallbackNamespaces?: string[];
  orphans?: Orphans;
  orphanArchiveAfterMs?: number;
  sharedProjects?: readonly SharedProject[];
  timeoutMs?: number;
  refusalRetryMs?: number;
  /** Default true. */
  workloads?: boolean;
  workloadLogs?: boolean;
  workloadWatch?: ReflectorTuning;
  release?: string;
  makeTransport?: (options: KubeTransportOptions) => KubeTransport;
  makeClient?: (options: ConstructorParameters<typeof RestClient>[0]) => RestClient;
  log?: KubeLog;
  watchTuning?: ReflectorTuning;
  /** It fills its caches and waits for `runtime.startWork`. */
  isStandby?: boolean;
}

export interface TestOperator {
  runtime: OperatorRuntime;
  registry: Registry;
  /** Calls to the API since the start, by operation. */
  calls: Map<string, number>;
  stop(): Promise<void>;
}

export interface OperatorFixture {
  namespace: string;
  apiFixture: ApiFixture;
  kube: TestClient;
  /** A session of the operator, in the project of the namespace. */
  api: ApiClient;
  tokenFile: string;
  startOperator(options?: OperatorOptions): Promise<TestOperator>;
  createMonitor(name: string, spec?: object, metadata?: object): Promise<MonitorObject>;
  createCallback(name: string, spec?: object, metadata?: object): Promise<CallbackObject>;
  createRule(name: string, spec: object, metadata?: object): Promise<RuleObject>;
  monitor(name: string): Promise<MonitorObject>;
  callback(name: string): Promise<CallbackObject>;
  rule(name: string): Promise<RuleObject>;
  /** Resolves when the condition has this status, and this reason if one is given. */
  monitorBecomes(name: string, condition: string, wanted: string, reason?: string): Promise<MonitorObject>;
  callbackBecomes(name: string, condition: string, wanted: string, reason?: string): Promise<CallbackObject>;
  ruleBecomes(name: string, condition: string, wanted: string, reason?: string): Promise<RuleObject>;
  /** The decoded Secret; undefined if there is none. */
  secret(name: string): Promise<Record<string, string> | undefined>;
  events(about: string): Promise<EventObject[]>;
  /** Resolves when the object has an Event of this reason. */
  eventAppears(about: string, reason: string): Promise<EventObject>;
  kubectl(args: string[], input?: string): Promise<Outcome>;
  /** Sends a beat to the address in the Secret: `''`, `/fail`, `/start`. */
  beat(secretName: string, kind?: string): Promise<Response>;
  close(): Promise<void>;
}

/** Creation times are whole seconds: an object made after this wait is younger, whatever the UIDs are. */
export async function nextSecond({ metadata }: KubeObject): Promise<void> {
  const end = Date.parse(metadata.creationTimestamp ?? '') + 1_000;
  await waitFor(() => Date.now() > end, { what: 'the next second' });
}

/** Another cluster with a namespace of that name, at the same api. */
export interface OtherCluster {
  kubeconfig: string;
  namespace: string;
  apiFixture: ApiFixture;
}

export async function openOperatorFixture(other?: OtherCluster): Promise<OperatorFixture> {
  const kubeconfig = other?.kubeconfig ?? adminKubeconfig;
  const kube = connect(() => loadKubeConfig(kubeconfig));
  const apiFixture = other?.apiFixture ?? (await openApiFixture());
  const namespace = await createNamespace(kube.client, other?.namespace);
  // As the one that an elector makes: its UID names the cluster where namespaces are not read.
  await kube.client.create(LEASES, { metadata: { namespace, name: LEASE_NAME } });
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-operator-'));
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, `${apiFixture.tokens.operator}\n`);
  const program = join((await findControlPlaneBinaries(() => undefined)) ?? '', 'kubectl');
  const operators: TestOperator[] = [];
  const { client } = kube;

  const readMonitor = (name: string) => client.get(MONITORS, { namespace, name });
  const readCallback = (name: string) => client.get(CALLBACKS, { namespace, name });
  const readRule = (name: string) => client.get(RULES, { namespace, name });
  const becomes = <T extends MonitorObject | CallbackObject | RuleObject>(
    read: (name: string) => Promise<T>,
  ) => {
    return async (name: string, condition: string, wanted: string, reason?: string): Promise<T> => {
      let last: T | undefined;
      const isSo = async () => {
        last = await read(name);
        const found = last.status?.conditions?.find(({ type }) => type === condition);
        const isRight = found?.status === wanted && (reason === undefined || found.reason === reason);
        return isRight && last.status?.observedGeneration === last.metadata.generation ? last : undefined;
      };
      return await waitFor(isSo, { what: `${name} is ${condition}=${wanted} ${reason ?? ''}` }).catch(
        (error) => {
          throw new Error(`${error.message}: ${JSON.stringify(last?.status)}`);
        },
      );
    };
  };
  const events = async (about: string) => {
    const { items } = await client.list(EVENTS, { namespace });
    return items.filter(({ regarding }) => regarding.name === about);
  };
  const secret = async (name: string) => {
    const found = await client.find(SECRETS, { namespace, name });
    if (found === undefined) return undefined;
    const entries = Object.entries(found.data ?? {});
    return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
  };

  return {
    ...{ namespace, apiFixture, kube, tokenFile, events, secret },
    api: apiFixture.operator.as(apiFixture.tokens.operator, namespace),
    async startOperator(given = {}) {
      const options = { apiUrl: apiFixture.url, watchNamespaces: [namespace], ...given };
      const lease = { namespace, name: LEASE_NAME };
      const operator = await startTestOperator(options, { tokenFile, kubeconfig, lease });
      operators.push(operator);
      return operator;
    },
    createMonitor: (name, spec = {}, metadata = {}) =>
      client.create(MONITORS, {
        metadata: { name, namespace, ...metadata },
        spec: spec as MonitorObject['spec'],
      }),
    createCallback: (name, spec = {}, metadata = {}) =>
      client.create(CALLBACKS, {
        metadata: { name, namespace, ...metadata },
        spec: { url: 'http://127.0.0.1:9/alerts', ...spec } as CallbackObject['spec'],
      }),
    createRule: (name, spec, metadata = {}) =>
      client.create(RULES, {
        metadata: { name, namespace, ...metadata },
        spec: spec as RuleObject['spec'],
      }),
    monitor: readMonitor,
    callback: readCallback,
    rule: readRule,
    monitorBecomes: becomes(readMonitor),
    callbackBecomes: becomes(readCallback),
    ruleBecomes: becomes(readRule),
    eventAppears: (about, reason) =>
      waitFor(async () => (await events(about)).find((event) => event.reason === reason), {
        what: `an Event ${reason} about ${about}`,
      }),
    kubectl: (args, input) =>
      runProgram(program, ['--kubeconfig', kubeconfig, '--namespace', namespace, ...args], { input }),
    async beat(secretName, kind = '') {
      const { pathname } = new URL((await secret(secretName))?.url ?? '');
      return await fetch(`${apiFixture.url}${pathname}${kind}`);
    },
    async close() {
      for (const operator of operators) await operator.stop();
      await deleteObjects(kube, namespace);
      await kube.close();
      if (other === undefined) await apiFixture.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** An operator of a later test file that watches all namespaces would care for what is left. */
async function deleteObjects({ client }: TestClient, namespace: string): Promise<void> {
  const remove = async (resource: KubeResource, ref: ObjectRef) => {
    await client.mergePatch(resource, ref, { metadata: { finalizers: null } });
    await client.delete(resource, ref);
  };
  for (const resource of [MONITORS, CALLBACKS, RULES]) {
    // Few at once: a busy API server must answer each in time.
    for (let left = 1; left > 0; ) {
      const { items } = await client.list<KubeObject>(resource, { namespace, limit: 10 });
      await Promise.all(items.map(({ metadata: { name } }) => remove(resource, { namespace, name })));
      left = items.length;
    }
  }
}

async function startTestOperator(
  options: OperatorOptions,
  { tokenFile, kubeconfig, lease }: { tokenFile: string; kubeconfig: string; lease: ObjectRef },
): Promise<TestOperator> {
  const registry = new Registry();
  const calls = new Map<string, number>();
  const loadConfig = () => loadKubeConfig(kubeconfig);
  const transportOptions = { loadConfig, userAgent: 'beatkeeper-operator/test' };
  const clientOptions = {
    apiUrl: options.apiUrl ?? '',
    tokenFile,
    timeoutMs: options.timeoutMs ?? 30_000,
    onCall: ({ operation }: { operation: string }) =>
      void calls.set(operation, (calls.get(operation) ?? 0) + 1),
  };
  const { runtime, close } = composeOperator({
    transport: options.makeTransport?.(transportOptions) ?? new KubeTransport(transportOptions),
    api: options.makeClient?.(clientOptions) ?? new RestClient(clientOptions),
    log: options.log ?? silentLog,
    metrics: createOperatorMetrics(registry),
    kubeMetrics: createKubeMetrics(registry),
    watchNamespaces: options.watchNamespaces ?? [],
    sharedProjects: options.sharedProjects,
    watchesWorkloads: options.workloads ?? true,
    lease,
    tuning: {
      resyncMs: options.resyncMs ?? 1500,
      lastBeatPeriodMs: options.lastBeatPeriodMs ?? 60_000,
      beatWritesPerSecond: options.beatWritesPerSecond ?? 50,
      defaultCallbackNamespaces: options.defaultCallbackNamespaces ?? [],
      refusalRetryMs: options.refusalRetryMs ?? 600_000,
      release: options.release ?? 'test/beatkeeper',
      orphans: options.orphans ?? 'Keep',
      orphanArchiveAfterMs: options.orphanArchiveAfterMs ?? 3_600_000,
      workloadLogs: options.workloadLogs ?? false,
      workloadWatch: options.workloadWatch,
    },
    eventTuning: { repeatMs: 200 },
    watchTuning: options.watchTuning,
  });
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await runtime.stopWork(5000);
    await close();
  };
  await runtime.startCaches();
  if (!options.isStandby) await runtime.startWork();
  return { runtime, registry, calls, stop };
}

// Starts a Kubernetes control plane with the CRDs for a test run, from binaries that are found or built as in development.
import { randomUUID } from 'node:crypto';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { prepareControlPlane } from '../../src/dev/control-plane/control-plane.ts';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { RUN_MARK_VARIABLE, runMark } from '../../src/dev/processes/run-processes.ts';
import { startWatchdog } from '../../src/dev/processes/watchdog.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { startK3s } from './k3s.ts';
import { type RunningServer, runServer } from './run-server.ts';

/** Managed clusters each have an issuer of their own, whose address is not that of their API server. */
const ISSUER = 'https://issuer.example.com/clusters/0123456789';

export interface TestControlPlane {
  /** Path of an administrator's kubeconfig. */
  kubeconfig: string;
  stop(): Promise<void>;
}

/** A control plane of one test, whose processes end and stand still when the test says so. */
export interface MortalControlPlane extends TestControlPlane {
  /** Ends it at once, as a lost machine does. */
  killApiServer(): Promise<void>;
  /** At the same address. Resolves when it is ready. */
  startApiServer(): Promise<void>;
  /** etcd keeps its connections and answers nothing. */
  pauseEtcd(): void;
  resumeEtcd(): void;
}

/** Undefined without the binaries. */
export async function startMortalControlPlane(): Promise<MortalControlPlane | undefined> {
  const plane = await startFromBinaries();
  if (plane === undefined) return undefined;
  await applyDefinitions(plane.kubeconfig).catch(async (error) => {
    await plane.stop();
    throw error;
  });
  return plane;
}

/**
 * Undefined where no control plane can be had: `HOW_TO_GET_A_CONTROL_PLANE` says what to do. `durable`: etcd flushes, as in
 * production.
 */
export async function startTestControlPlane(durable = false): Promise<TestControlPlane | undefined> {
  const given = process.env.TEST_KUBECONFIG;
  const started = given
    ? { kubeconfig: given, stop: async () => undefined }
    : ((await startFromBinaries(durable)) ?? (await startK3s()));
  if (started === undefined) return undefined;
  try {
    await applyDefinitions(started.kubeconfig);
  } catch (error) {
    await started.stop();
    throw error;
  }
  return started;
}

async function startFromBinaries(durable = false): Promise<MortalControlPlane | undefined> {
  const binaries = await findControlPlaneBinaries((words) => console.error(words));
  if (binaries === undefined) return undefined;
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'beatkeeper-cluster-')));
  const runId = randomUUID();
  const watchdog = startWatchdog(folder, runId);
  const etcd = await findFreePort();
  const etcdPeer = await findFreePort(new Set([etcd]));
  const ports = { etcd, etcdPeer, apiserver: await findFreePort(new Set([etcd, etcdPeer])) };
  const plane = await prepareControlPlane({ binaries, folder, ports, durable, issuer: ISSUER });
  const { PATH, HOME } = process.env;
  const env = { PATH, HOME, [RUN_MARK_VARIABLE]: runMark(folder, runId) };
  const etcdServer = runServer(plane.etcd, env);
  let apiServer = runServer(plane.apiserver, env);
  const becomesReady = (server: RunningServer) =>
    Promise.race([plane.waitUntilReady(240_000), etcdServer.failed, server.failed]);
  const stop = async () => {
    // The API server ends first, because it waits for etcd's answers.
    for (const server of [apiServer, etcdServer]) await server.end('SIGTERM', 3_000);
    await watchdog.end();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await becomesReady(apiServer);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    ...{ kubeconfig: plane.kubeconfig, stop },
    killApiServer: () => apiServer.end('SIGKILL', 0),
    async startApiServer() {
      apiServer = runServer(plane.apiserver, env);
      await becomesReady(apiServer);
    },
    pauseEtcd: () => etcdServer.signal('SIGSTOP'),
    resumeEtcd: () => etcdServer.signal('SIGCONT'),
  };
}

async function applyDefinitions(kubeconfig: string): Promise<void> {
  const transport = new KubeTransport({
    loadConfig: () => loadKubeConfig(kubeconfig),
    userAgent: 'beatkeeper-test/1',
    requestTimeoutMs: 60_000,
  });
  try {
    await applyCrds({ transport, client: new KubeClient(transport) });
  } finally {
    await transport.close();
  }
}

// Chooses the control plane of a development run: the cluster of TEST_KUBECONFIG, or etcd and kube-apiserver of the
// run's own, or none.
import { mkdir } from 'node:fs/promises';
import { findOnPath } from '../processes/executable.ts';
import type { ProcessSpec } from '../processes/supervisor.ts';
import type { State } from '../state.ts';
import { prepareControlPlane } from './control-plane.ts';
import {
  findControlPlaneBinaries,
  HOW_TO_GET_A_CONTROL_PLANE,
  type Progress,
} from './control-plane-binaries.ts';

export interface DevelopmentControlPlane {
  kubeconfig: string;
  /** The folder of kubectl, if kubectl is not on PATH. */
  toolsFolder?: string;
  /** The processes to start, in this order; none for the cluster of TEST_KUBECONFIG. */
  servers: readonly ProcessSpec[];
  waitUntilReady(signal: AbortSignal): Promise<void>;
}

const START_LIMIT_MS = 90_000;

/** Resolves to undefined, after a sentence to `progress`, if this machine cannot have a control plane. */
export async function openControlPlane(
  state: State,
  env: NodeJS.ProcessEnv,
  progress: Progress,
): Promise<DevelopmentControlPlane | undefined> {
  const folder = state.path('cluster');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const given = process.env.TEST_KUBECONFIG;
  if (given) return { kubeconfig: given, servers: [], waitUntilReady: async () => undefined };
  const binaries = await findControlPlaneBinaries(progress, env);
  if (binaries === undefined) {
    progress(`${HOW_TO_GET_A_CONTROL_PLANE} This run continues without a cluster.`);
    return undefined;
  }
  const ports = {
    etcd: await state.port('etcd'),
    etcdPeer: await state.port('etcd-peer'),
    apiserver: await state.port('kube-apiserver'),
  };
  const plane = await prepareControlPlane({ binaries, folder, ports, durable: true });
  const common = { env, endSignal: 'SIGTERM' as const };
  return {
    kubeconfig: plane.kubeconfig,
    toolsFolder: (await findOnPath('kubectl')) === undefined ? binaries : undefined,
    servers: [
      { ...common, ...plane.etcd, name: 'etcd', role: 'etcd', endMs: 1_500 },
      { ...common, ...plane.apiserver, name: 'kube-apiserver', role: 'kube-apiserver', endMs: 1_500 },
    ],
    waitUntilReady: (signal) => plane.waitUntilReady(START_LIMIT_MS, signal),
  };
}

// A node of the cluster whose kubelet is this test: it renews its Lease, says that it is ready, and writes the status of its pods. All
// that the control plane makes of its silence is real.
import { setTimeout as delay } from 'node:timers/promises';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { isConflict, isNotFound } from '../../src/kube/kube-error.ts';
import {
  formatMicroTime,
  formatSeconds,
  type KubeObject,
  type KubeResource,
  resourcePath,
} from '../../src/kube/kube-object.ts';

interface WholeObject extends KubeObject {
  spec?: Record<string, unknown>;
  status?: { phase?: string; [field: string]: unknown };
}

const resource = (apiVersion: string, kind: string, plural: string, namespaced: boolean) =>
  ({ apiVersion, kind, plural, namespaced }) satisfies KubeResource as KubeResource<WholeObject>;
const NODES = resource('v1', 'Node', 'nodes', false);
const PODS = resource('v1', 'Pod', 'pods', true);
const LEASES = resource('coordination.k8s.io/v1', 'Lease', 'leases', true);

export interface PlayedNode {
  /** Fields of a pod that is to run there, and nowhere else. */
  readonly podFields: object;
  /** Its kubelet is silent from now on. What runs there runs on. */
  goAway(): void;
  comeBack(): void;
  /** The containers of such pods end with success, also those that come later. */
  endPods(which: (pod: KubeObject) => boolean): void;
  /** Whether the control plane takes it for ready. */
  isReady(): Promise<boolean>;
  close(): Promise<void>;
}

const TURN_MS = 1_000;
const LEASE_SECONDS = 40;

export async function startPlayedNode(kubeconfig: string, name: string): Promise<PlayedNode> {
  const { client, transport } = connectCluster(kubeconfig);
  const lease = { namespace: 'kube-node-lease', name };
  const taint = { key: 'played', value: name, effect: 'NoSchedule' };
  const end = new AbortController();
  let isAway: boolean = false;
  let ends: (pod: KubeObject) => boolean = () => false;

  await client.create(NODES, {
    metadata: { name, labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' } },
    spec: { taints: [taint] },
  });
  const renewal = () => ({
    holderIdentity: name,
    leaseDurationSeconds: LEASE_SECONDS,
    renewTime: formatMicroTime(Date.now()),
  });
  await client.create(LEASES, { metadata: lease, spec: renewal() });

  const sayReady = async () => {
    const at = formatSeconds(Date.now());
    const ready = {
      ...{ type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'played by a test' },
      ...{ lastHeartbeatTime: at, lastTransitionTime: at },
    };
    const room = { cpu: '64', memory: '64Gi', pods: '110' };
    const status = { conditions: [ready], capacity: room, allocatable: room };
    await client.mergePatch(NODES, { name }, { status }, { subresource: 'status' });
  };
  const readReady = async () => {
    const { status } = await client.get(NODES, { name });
    const conditions = (status?.conditions ?? []) as { type: string; status: string }[];
    return conditions.some((one) => one.type === 'Ready' && one.status === 'True');
  };

  const runPod = async (pod: WholeObject) => {
    const { metadata, status } = pod;
    const ref = { namespace: metadata.namespace ?? '', name: metadata.name };
    if (metadata.deletionTimestamp !== undefined) {
      // As a kubelet confirms that the containers have ended.
      const body = { gracePeriodSeconds: 0 };
      await transport.request({ method: 'DELETE', path: resourcePath(PODS, ref), body });
    } else if (status?.phase === 'Pending') {
      await client.mergePatch(PODS, ref, { status: running(pod) }, { subresource: 'status' });
    } else if (status?.phase === 'Running' && ends(pod)) {
      await client.mergePatch(PODS, ref, { status: succeeded(pod) }, { subresource: 'status' });
    }
  };
  const turn = async () => {
    await client.mergePatch(LEASES, lease, { spec: renewal() });
    if (!(await readReady())) await sayReady();
    const { items } = await client.list(PODS, { fieldSelector: `spec.nodeName=${name}` });
    for (const pod of items) {
      if (isAway) return;
      await runPod(pod).catch((error) => {
        if (!isNotFound(error) && !isConflict(error)) throw error;
      });
    }
  };
  const run = async () => {
    while (!end.signal.aborted) {
      if (!isAway) await turn().catch(() => undefined); // the next turn does it
      await delay(TURN_MS, undefined, { signal: end.signal }).catch(() => undefined);
    }
  };
  const turns = run();
  return {
    podFields: {
      nodeSelector: { 'kubernetes.io/hostname': name },
      tolerations: [{ key: taint.key, operator: 'Equal', value: name, effect: taint.effect }],
    },
    goAway: () => {
      isAway = true;
    },
    comeBack: () => {
      isAway = false;
    },
    endPods: (which) => {
      ends = which;
    },
    isReady: readReady,
    async close() {
      end.abort();
      await turns;
      await transport.close();
    },
  };
}

const containersOf = ({ spec }: WholeObject) => spec?.containers as { name: string; image: string }[];

function running(pod: WholeObject): object {
  const at = formatSeconds(Date.now());
  const statuses = containersOf(pod).map(({ name, image }) => ({
    ...{ name, image, imageID: '', ready: true, started: true, restartCount: 0 },
    state: { running: { startedAt: at } },
  }));
  const conditions = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) => ({
    ...{ type, status: 'True', lastTransitionTime: at },
  }));
  return { phase: 'Running', startTime: at, conditions, containerStatuses: statuses };
}

function succeeded({ status, ...pod }: WholeObject): object {
  const at = formatSeconds(Date.now());
  const statuses = containersOf(pod).map(({ name, image }) => ({
    ...{ name, image, imageID: '', ready: false, started: false, restartCount: 0 },
    state: { terminated: { exitCode: 0, reason: 'Completed', startedAt: status?.startTime, finishedAt: at } },
  }));
  const conditions = ['ContainersReady', 'Ready'].map((type) => ({
    ...{ type, status: 'False', reason: 'PodCompleted', lastTransitionTime: at },
  }));
  return { phase: 'Succeeded', conditions, containerStatuses: statuses };
}

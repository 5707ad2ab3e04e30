// CronJobs, Jobs and their pods as the caches keep them: only what runs-of.ts and the Monitors read of them.
import type { KubeObject, KubeResource, OwnerReference } from '../../kube/kube-object.ts';

export interface CronJobObject extends KubeObject {
  spec: {
    schedule: string;
    timeZone?: string;
    suspend?: boolean;
    startingDeadlineSeconds?: number;
  };
  status?: { lastScheduleTime?: string; lastSuccessfulTime?: string };
}

export interface JobCondition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface JobObject extends KubeObject {
  spec: { suspend?: boolean };
  status?: { startTime?: string; completionTime?: string; conditions?: JobCondition[] };
}

export interface ContainerState {
  waiting?: { reason?: string };
  running?: { startedAt?: string };
  terminated?: { exitCode: number; reason?: string; startedAt?: string; finishedAt?: string };
}

export interface ContainerStatus {
  name: string;
  state?: ContainerState;
  /** Of its run before the last restart. */
  lastState?: ContainerState;
}

export interface PodObject extends KubeObject {
  status?: {
    reason?: string;
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
  };
}

export const CRON_JOBS: KubeResource<CronJobObject> = {
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  plural: 'cronjobs',
  namespaced: true,
  transform: (raw) => {
    const { schedule, timeZone, suspend, startingDeadlineSeconds } = raw.spec;
    const { lastScheduleTime, lastSuccessfulTime } = raw.status ?? {};
    return {
      ...slim(raw),
      spec: { schedule, timeZone, suspend, startingDeadlineSeconds },
      status: { lastScheduleTime, lastSuccessfulTime },
    };
  },
};

export const JOBS: KubeResource<JobObject> = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  plural: 'jobs',
  namespaced: true,
  transform: (raw) => {
    const { startTime, completionTime, conditions } = raw.status ?? {};
    return {
      ...slim({ ...raw, metadata: { ...raw.metadata, labels: undefined, annotations: undefined } }),
      spec: { suspend: raw.spec.suspend },
      status: { startTime, completionTime, conditions: conditions?.map(slimCondition) },
    };
  },
};

/** Each pod of a Job has it, whoever made the Job. */
export const POD_SELECTOR = 'batch.kubernetes.io/job-name';

export const PODS: KubeResource<PodObject> = {
  apiVersion: 'v1',
  kind: 'Pod',
  plural: 'pods',
  namespaced: true,
  transform: (raw) => {
    const { reason, containerStatuses, initContainerStatuses } = raw.status ?? {};
    return {
      ...slim({ ...raw, metadata: { ...raw.metadata, labels: undefined, annotations: undefined } }),
      status: {
        reason,
        containerStatuses: containerStatuses?.map(slimStatus),
        initContainerStatuses: initContainerStatuses?.map(slimStatus),
      },
    };
  },
};

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** Identity, labels, annotations, owner and deletion of an object, without its spec and status. */
function slim({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels } = metadata;
  const { [LAST_APPLIED]: _dropped, ...annotations } = metadata.annotations ?? {};
  const owner = controllerOf({ metadata });
  return {
    ...{ apiVersion, kind },
    metadata: {
      ...{ name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels },
      annotations: metadata.annotations && annotations,
      ownerReferences: owner && [owner],
    },
  };
}

/** The owner that manages the object. */
export function controllerOf({ metadata }: Pick<KubeObject, 'metadata'>): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true);
}

function slimCondition({ type, status, reason, message, lastTransitionTime }: JobCondition): JobCondition {
  return { type, status, reason, message: message?.slice(0, 400), lastTransitionTime };
}

function slimStatus({ name, state, lastState }: ContainerStatus): ContainerStatus {
  return { name, state: slimState(state), lastState: slimState(lastState) };
}

function slimState(raw: ContainerState | undefined): ContainerState | undefined {
  if (raw?.waiting) return { waiting: { reason: raw.waiting.reason } };
  if (raw?.running) return { running: { startedAt: raw.running.startedAt } };
  if (raw?.terminated === undefined) return undefined;
  const { exitCode, reason, startedAt, finishedAt } = raw.terminated;
  return { terminated: { exitCode, reason, startedAt, finishedAt } };
}

// CronJobs, Jobs and their pods as the caches keep them: only what runs-of.ts and the Monitors read of them.
import type { KubeObject, KubeResource, OwnerReference } from '../../kube/kube-object.ts';
import { needsOf, type PodNeeds, type TemplateSpec } from './causes/pod-needs.ts';

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
  spec: {
    suspend?: boolean;
    parallelism?: number;
    /** Of its template: what a quota counts. */
    podNeeds?: PodNeeds;
    /** Not kept. */
    template?: { spec?: TemplateSpec };
  };
  status?: {
    startTime?: string;
    completionTime?: string;
    active?: number;
    failed?: number;
    conditions?: JobCondition[];
  };
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
  /** As the pod names it, of one that waits for it in vain. */
  image?: string;
}

interface ContainerSpec {
  name: string;
  image?: string;
}

export interface PodObject extends KubeObject {
  spec?: {
    nodeName?: string;
    /** Not kept. */
    containers?: ContainerSpec[];
    initContainers?: ContainerSpec[];
  };
  status?: {
    phase?: string;
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
    const { startTime, completionTime, active, failed, conditions } = raw.status ?? {};
    const { suspend, parallelism, template } = raw.spec;
    return {
      ...slim({ ...raw, metadata: { ...raw.metadata, labels: undefined, annotations: undefined } }),
      spec: { suspend, parallelism, podNeeds: needsOf(template?.spec) },
      status: { startTime, completionTime, active, failed, conditions: conditions?.map(slimCondition) },
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
    const { phase, reason, containerStatuses, initContainerStatuses } = raw.status ?? {};
    const { nodeName, containers, initContainers } = raw.spec ?? {};
    return {
      ...slim({ ...raw, metadata: { ...raw.metadata, labels: undefined, annotations: undefined } }),
      spec: { nodeName },
      status: {
        phase,
        reason,
        containerStatuses: containerStatuses?.map((one) => slimStatus(one, containers)),
        initContainerStatuses: initContainerStatuses?.map((one) => slimStatus(one, initContainers)),
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

/** Why a container waits whose image cannot be had. */
export const IMAGE_REASONS: ReadonlySet<string> = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
]);

/** The image that the status names is the one that was found: which one was wanted is in the spec. */
function slimStatus(
  { name, state, lastState }: ContainerStatus,
  specs: readonly ContainerSpec[] = [],
): ContainerStatus {
  const isMissing = IMAGE_REASONS.has(state?.waiting?.reason ?? '');
  const image = isMissing ? specs.find((one) => one.name === name)?.image : undefined;
  return { name, state: slimState(state), lastState: slimState(lastState), image };
}

function slimState(raw: ContainerState | undefined): ContainerState | undefined {
  if (raw?.waiting) return { waiting: { reason: raw.waiting.reason } };
  if (raw?.running) return { running: { startedAt: raw.running.startedAt } };
  if (raw?.terminated === undefined) return undefined;
  const { exitCode, reason, startedAt, finishedAt } = raw.terminated;
  return { terminated: { exitCode, reason, startedAt, finishedAt } };
}

// CronJobs, Jobs and pods as the controllers of a cluster write them: a control plane of a test has none of these controllers.

import type { Observation } from '../../src/contract/resources/beat.ts';
import { formatSeconds, type KubeObject, type KubeResource } from '../../src/kube/kube-object.ts';
import { waitFor } from '../support/wait-for.ts';
import type { OperatorFixture } from './operator-fixture.ts';

/** As the API server stores it. */
export interface WholeObject extends KubeObject {
  spec: Record<string, unknown>;
  status?: Record<string, unknown>;
}

const resource = (apiVersion: string, kind: string, plural: string): KubeResource<WholeObject> => ({
  ...{ apiVersion, kind, plural, namespaced: true },
});
export const WHOLE_CRON_JOBS = resource('batch/v1', 'CronJob', 'cronjobs');
export const WHOLE_JOBS = resource('batch/v1', 'Job', 'jobs');
const SERVICE_ACCOUNTS: KubeResource = {
  ...{ apiVersion: 'v1', kind: 'ServiceAccount', plural: 'serviceaccounts', namespaced: true },
};
export const WHOLE_PODS = resource('v1', 'Pod', 'pods');

/** `seconds` before now, as Kubernetes writes times. Two of one test come from one moment: `timesBefore`. */
export const ago = (seconds: number): string => timesBefore(Date.now())(seconds);
export const timesBefore = (nowMs: number) => (seconds: number) => formatSeconds(nowMs - seconds * 1000);

export const cronJobRef = (name: string) => ({ apiVersion: 'batch/v1', kind: 'CronJob', name });

const podSpec = { restartPolicy: 'Never', containers: [{ name: 'main', image: 'backup:1' }] };

/** What a container of a pod is like. */
export interface ContainerFacts {
  waiting?: string;
  startedAt?: string;
  exitCode?: number;
  reason?: string;
  finishedAt?: string;
  /** Where the pod runs. */
  node?: string;
}

export interface JobFixture {
  createCronJob(name: string, spec?: object, metadata?: object): Promise<WholeObject>;
  cronJob(name: string): Promise<WholeObject>;
  patchCronJob(name: string, patch: object): Promise<WholeObject>;
  setCronJobStatus(name: string, status: object): Promise<WholeObject>;
  deleteCronJob(name: string): Promise<void>;
  /** A Job of a CronJob, or of nobody. */
  createJob(
    name: string,
    owner?: KubeObject,
    more?: { spec?: object; metadata?: object },
  ): Promise<WholeObject>;
  patchJob(name: string, patch: object): Promise<WholeObject>;
  /** The Job begins, and a pod of it runs. */
  startJob(name: string, at?: string): Promise<WholeObject>;
  /** A pod of a Job, in this state. Made again it is changed. */
  setPod(name: string, job: KubeObject, container: ContainerFacts, status?: object): Promise<WholeObject>;
  completeJob(name: string, at?: string): Promise<WholeObject>;
  failJob(name: string, reason: string, more?: { at?: string; message?: string }): Promise<WholeObject>;
  deleteJob(name: string): Promise<void>;
  deletePod(name: string): Promise<void>;
  /** Oldest first. */
  observations(monitor: string): Promise<Observation[]>;
  /** Resolves when the monitor has recorded beats of these kinds, in this order, and no others. */
  beats(monitor: string, kinds: readonly string[]): Promise<Observation[]>;
}

export function jobFixture(fixture: OperatorFixture): JobFixture {
  const { namespace } = fixture;
  const { client } = fixture.kube;
  const ref = (name: string) => ({ namespace, name });
  const patchStatus = (kind: KubeResource<WholeObject>, name: string, status: object) =>
    client.mergePatch(kind, ref(name), { status }, { subresource: 'status' });

  /** That of a namespace, which another controller makes. */
  const makeAccount = async () => {
    if ((await client.find(SERVICE_ACCOUNTS, ref('default'))) !== undefined) return;
    await client.create(SERVICE_ACCOUNTS, { metadata: ref('default') });
  };

  async function observations(name: string): Promise<Observation[]> {
    const { status } = await fixture.monitor(name);
    if (status?.monitorId === undefined) return [];
    const request = { params: { monitorId: status.monitorId }, query: { limit: 100 } };
    const { body } = await fixture.api.expectSuccess('listObservations', request);
    return body.items.toReversed();
  }

  const all: JobFixture = {
    createCronJob: (name, spec = {}, metadata = {}) =>
      client.create(WHOLE_CRON_JOBS, {
        metadata: { ...ref(name), ...metadata },
        spec: { schedule: '0 2 * * *', jobTemplate: { spec: { template: { spec: podSpec } } }, ...spec },
      }),
    cronJob: (name) => client.get(WHOLE_CRON_JOBS, ref(name)),
    patchCronJob: (name, patch) => client.mergePatch(WHOLE_CRON_JOBS, ref(name), patch),
    setCronJobStatus: (name, status) => patchStatus(WHOLE_CRON_JOBS, name, status),
    deleteCronJob: async (name) => void (await client.delete(WHOLE_CRON_JOBS, ref(name))),
    createJob: (name, owner, { spec = {}, metadata = {} } = {}) => {
      const { uid = '', name: ownerName = '' } = owner?.metadata ?? {};
      const reference = { apiVersion: 'batch/v1', kind: 'CronJob', name: ownerName, uid, controller: true };
      return client.create(WHOLE_JOBS, {
        metadata: { ...ref(name), ...(owner ? { ownerReferences: [reference] } : {}), ...metadata },
        spec: { template: { spec: podSpec }, ...spec },
      });
    },
    patchJob: (name, patch) => client.mergePatch(WHOLE_JOBS, ref(name), patch),
    async startJob(name, at = ago(0)) {
      const job = await patchStatus(WHOLE_JOBS, name, { startTime: at, active: 1, ready: 0 });
      await all.setPod(`${name}-pod`, job, { startedAt: at });
      return job;
    },
    async setPod(name, job, container, status = {}) {
      const { uid = '', name: jobName } = job.metadata;
      const owner = { apiVersion: 'batch/v1', kind: 'Job', name: jobName, uid, controller: true };
      const labels = { 'batch.kubernetes.io/job-name': jobName, 'job-name': jobName };
      const found = await client.find(WHOLE_PODS, ref(name));
      if (found === undefined) {
        await makeAccount();
        const metadata = { ...ref(name), labels, ownerReferences: [owner] };
        const { node: nodeName } = container;
        await client.create(WHOLE_PODS, {
          metadata,
          spec: { ...podSpec, ...(nodeName ? { nodeName } : {}) },
        });
      }
      const state = stateOf(container);
      const [common] = [{ name: 'main', image: 'backup:1', imageID: '', ready: false, restartCount: 0 }];
      const phase =
        container.exitCode === undefined ? 'Running' : container.exitCode === 0 ? 'Succeeded' : 'Failed';
      const containerStatuses = [{ ...common, state }];
      return await patchStatus(WHOLE_PODS, name, { phase, containerStatuses, ...status });
    },
    async completeJob(name, at = ago(0)) {
      const job = await client.get(WHOLE_JOBS, ref(name));
      const startTime = job.status?.startTime ?? at;
      const condition = (type: string) => ({
        type,
        status: 'True',
        lastTransitionTime: at,
        lastProbeTime: at,
      });
      return await patchStatus(WHOLE_JOBS, name, {
        ...{ startTime, active: 0, ready: 0, succeeded: 1, completionTime: at },
        conditions: [condition('SuccessCriteriaMet'), condition('Complete')],
      });
    },
    async failJob(name, reason, { at = ago(0), message = '' } = {}) {
      const job = await client.get(WHOLE_JOBS, ref(name));
      const startTime = job.status?.startTime ?? at;
      const condition = (type: string) => ({
        ...{ type, status: 'True', lastTransitionTime: at, lastProbeTime: at, reason, message },
      });
      return await patchStatus(WHOLE_JOBS, name, {
        ...{ startTime, active: 0, ready: 0, failed: 1 },
        conditions: [condition('FailureTarget'), condition('Failed')],
      });
    },
    deleteJob: async (name) =>
      void (await client.delete(WHOLE_JOBS, ref(name), { propagationPolicy: 'Background' })),
    deletePod: async (name) => void (await client.delete(WHOLE_PODS, ref(name))),
    observations,
    async beats(monitor, kinds) {
      let found: Observation[] = [];
      const isSo = async () => {
        found = await observations(monitor);
        return JSON.stringify(found.map(({ kind }) => kind)) === JSON.stringify(kinds);
      };
      await waitFor(isSo, { what: `the beats ${kinds.join(', ')} of ${monitor}` }).catch((error) => {
        throw new Error(`${error.message}: ${JSON.stringify(found)}`);
      });
      return found;
    },
  };
  return all;
}

function stateOf({ waiting, startedAt, exitCode, reason, finishedAt }: ContainerFacts): object {
  if (waiting !== undefined) return { waiting: { reason: waiting }, running: null, terminated: null };
  if (exitCode === undefined) return { running: { startedAt }, waiting: null, terminated: null };
  return { terminated: { exitCode, reason, startedAt, finishedAt: finishedAt ?? ago(0) } };
}

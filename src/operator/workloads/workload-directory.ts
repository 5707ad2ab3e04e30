// Finds the workload that a Monitor refers to: CronJobs and Jobs in the caches, others by a read that serves for some minutes.
import type { KubeClient } from '../../kube/kube-client.ts';
import { isForbidden } from '../../kube/kube-error.ts';
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { WorkloadCaches } from './workload-caches.ts';
import type { Workload, WorkloadRef } from './workload-of.ts';

/** Name and labels are for people: nobody watches them. */
const FRESH_MS = 600_000;

const PLURALS = { Deployment: 'deployments', StatefulSet: 'statefulsets', DaemonSet: 'daemonsets' } as const;

export class WorkloadDirectory {
  readonly #kube: KubeClient;
  readonly #caches: WorkloadCaches;
  readonly #read = new Map<string, { object: KubeObject | undefined; atMs: number }>();

  constructor(kube: KubeClient, caches: WorkloadCaches) {
    this.#kube = kube;
    this.#caches = caches;
  }

  /** Undefined if the spec names none. Throws KubeError. */
  async find({ metadata, spec }: MonitorObject): Promise<Workload | undefined> {
    const { workloadRef: ref } = spec;
    if (ref === undefined) return undefined;
    const key = `${metadata.namespace}/${ref.name}`;
    if (ref.kind === 'CronJob') {
      const cronJob = this.#caches.cronJobs.get(key);
      return { ref, object: cronJob, cronJob, isEnabled: true };
    }
    const object =
      ref.kind === 'Job' ? this.#caches.jobs.get(key) : await this.#readOther(metadata.namespace, ref);
    return { ref, object, isEnabled: true };
  }

  async #readOther(
    namespace: string | undefined,
    { kind, name }: WorkloadRef,
  ): Promise<KubeObject | undefined> {
    if (kind === 'CronJob' || kind === 'Job') return undefined;
    const key = `${namespace}/${kind}/${name}`;
    const known = this.#read.get(key);
    if (known !== undefined && performance.now() - known.atMs < FRESH_MS) return known.object;
    const resource: KubeResource = {
      ...{ apiVersion: 'apps/v1', kind, plural: PLURALS[kind], namespaced: true },
      transform: ({ apiVersion, kind: type, metadata }) =>
        withoutBookkeeping({ apiVersion, kind: type, metadata }),
    };
    const found = await this.#kube
      .find(resource, { ...(namespace === undefined ? {} : { namespace }), name })
      .catch((error: unknown) => {
        if (isForbidden(error)) return undefined;
        throw error;
      });
    const slim = found && { metadata: { name, labels: found.metadata.labels } };
    this.#read.set(key, { object: slim, atMs: performance.now() });
    if (this.#read.size > 10_000) this.#read.delete(this.#read.keys().next().value ?? '');
    return slim;
  }
}

// Makes the Monitors of CronJobs whose annotations, or whose namespace, ask for one, keeps what the annotations say, and
// deletes those Monitors again. A Monitor of somebody else is never touched.
import { isDeepStrictEqual } from 'node:util';
import { Controller } from '../../kube/controller.ts';
import { isAlreadyExists, isForbidden, isInvalid, type KubeError } from '../../kube/kube-error.ts';
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import { type KubeObject, namespaceOfKey, type OwnerReference, objectKey } from '../../kube/kube-object.ts';
import { MONITORS, type MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../known/object-cache.ts';
import type { OperatorContext } from '../operator-context.ts';
import { ObjectEvents } from '../pass/object-events.ts';
import { otherReleaseOf } from '../pass/release.ts';
import { ANNOTATION, MONITOR_CRON_JOBS_LABEL } from '../resources/names.ts';
import { ANNOTATED_FIELDS, type AnnotatedSpec, annotatedSpec, isAnnotated } from './annotated-spec.ts';
import { CRON_JOBS, type CronJobObject, controllerOf } from './batch-objects.ts';
import type { WorkloadView } from './workload-view.ts';

const WAIT_MS = 1000;
/** The words that were said last of a CronJob are remembered for this many of them. */
const MAX_SAID = 10_000;

export class AnnotatedCronJobs {
  readonly #context: OperatorContext;
  readonly #view: WorkloadView;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #controller: Controller;
  readonly #events: ObjectEvents;
  /** What was said of each CronJob last, by UID: it is said once. */
  readonly #said = new Map<string, string>();
  #isWorking: boolean = false;

  constructor(
    context: OperatorContext,
    view: WorkloadView,
    monitors: ObjectCache<MonitorObject>,
    metrics?: KubeMetrics,
  ) {
    this.#context = context;
    this.#view = view;
    this.#monitors = monitors;
    this.#events = new ObjectEvents(context, {});
    this.#controller = new Controller({
      name: 'cronjob',
      reconcile: (key) => this.#reconcile(key),
      concurrency: 4,
      metrics,
      log: context.log,
    });
    view.caches.subscribe((keys, change) => {
      if (change !== 'workload') return;
      for (const [namespace, kind, name] of keys.map((key) => key.split('/')))
        if (kind === 'CronJob') this.#enqueue(`${namespace}/${name}`);
    });
    monitors.subscribe(({ object, key }) => {
      // Also one of somebody else that is in the way, or was.
      if (isMade(object) || view.caches.cronJobs.get(key) !== undefined) this.#enqueue(key);
    });
    context.watched.onRecovered((namespace) => this.#enqueueAll(namespace));
  }

  start(): void {
    this.#isWorking = true;
    for (const key of this.#view.caches.cronJobs.keys()) this.#controller.enqueue(key, 'low');
    for (const monitor of this.#monitors.values())
      if (isMade(monitor)) this.#controller.enqueue(objectKey(monitor), 'low');
    this.#controller.start();
  }

  async stop(graceMs: number): Promise<void> {
    await this.#controller.stop(graceMs);
  }

  /** Called when a namespace changes: its label may ask for Monitors now, or no more. */
  namespaceChanged(name: string, { object, previous }: { object: KubeObject; previous?: KubeObject }): void {
    const labelOf = (one?: KubeObject) => one?.metadata.labels?.[MONITOR_CRON_JOBS_LABEL];
    if (labelOf(object) !== labelOf(previous)) this.#enqueueAll(name);
  }

  #enqueueAll(namespace: string): void {
    for (const key of this.#view.caches.cronJobs.keysInNamespace(namespace)) this.#enqueue(key);
  }

  #enqueue(key: string): void {
    if (this.#isWorking) this.#controller.enqueue(key);
  }

  async #reconcile(key: string): Promise<{ requeueAfterMs: number } | undefined> {
    const { watched, namespaces, settings } = this.#context;
    const namespace = namespaceOfKey(key);
    if (watched.isDegraded(namespace)) return undefined;
    if (!watched.isWatched(namespace)) return { requeueAfterMs: WAIT_MS };
    const monitor = this.#monitors.get(key);
    const isOthers = monitor !== undefined && otherReleaseOf(monitor, settings.release) !== undefined;
    if (isOthers || monitor?.metadata.deletionTimestamp !== undefined) return undefined;
    const cronJob = this.#view.caches.cronJobs.get(key);
    const place = namespaces.get(namespace);
    const isThere = cronJob !== undefined && cronJob.metadata.deletionTimestamp === undefined;
    if (!isThere || !isAnnotated(cronJob, place)) {
      if (cronJob !== undefined)
        this.#sayFaults(cronJob, isThere ? annotatedSpec(cronJob).faults.slice(0, 1) : []);
      // Nothing relies on a garbage collector, also not where the CronJob is gone.
      if (monitor !== undefined && isMade(monitor)) await this.#delete(monitor, cronJob);
      return undefined;
    }
    if (place?.metadata.deletionTimestamp !== undefined) return undefined;
    return await this.#ensure(cronJob, monitor);
  }

  async #ensure(
    cronJob: CronJobObject,
    monitor: MonitorObject | undefined,
  ): Promise<{ requeueAfterMs: number } | undefined> {
    const { name } = cronJob.metadata;
    const { spec, faults } = annotatedSpec(cronJob);
    if (monitor !== undefined && !isMade(monitor)) {
      const taken = `There is a Monitor ${name} that the operator did not make for this CronJob, so the annotation ${ANNOTATION.monitor} has no effect: delete that Monitor, or remove the annotation.`;
      this.#sayFaults(cronJob, [taken]);
      return undefined;
    }
    this.#sayFaults(cronJob, faults);
    try {
      if (monitor === undefined) await this.#create(cronJob, spec);
      else await this.#update(cronJob, monitor, spec);
    } catch (error) {
      // The cache is behind: the next look sees it.
      if (isAlreadyExists(error)) return { requeueAfterMs: WAIT_MS };
      if (isForbidden(error) || isInvalid(error)) this.#refused(cronJob, error);
      throw error;
    }
    return undefined;
  }

  async #create(cronJob: CronJobObject, spec: AnnotatedSpec): Promise<void> {
    const { name, namespace } = cronJob.metadata;
    const metadata = {
      ...{ name, ...(namespace === undefined ? {} : { namespace }) },
      annotations: { [ANNOTATION.madeFor]: 'CronJob' },
      ownerReferences: [ownerOf(cronJob)],
    };
    await this.#context.kube.create(MONITORS, { metadata, spec });
    this.#events.record(cronJob, 'Created', `Made the Monitor ${name}.`);
  }

  async #update(cronJob: CronJobObject, monitor: MonitorObject, spec: AnnotatedSpec): Promise<void> {
    const changed = ANNOTATED_FIELDS.filter((field) => !isDeepStrictEqual(monitor.spec[field], spec[field]));
    const isOwned = controllerOf(monitor)?.uid === cronJob.metadata.uid;
    if (changed.length === 0 && isOwned) return;
    const { uid, resourceVersion } = monitor.metadata;
    const patch = {
      // A CronJob that was made again keeps the Monitor of its name.
      metadata: { uid, resourceVersion, ...(isOwned ? {} : { ownerReferences: [ownerOf(cronJob)] }) },
      spec: Object.fromEntries(changed.map((field) => [field, replaced(monitor.spec[field], spec[field])])),
    };
    await this.#context.kube.mergePatch(MONITORS, monitor.metadata, patch);
    if (changed.length === 0) return;
    const note = `The annotations of CronJob ${cronJob.metadata.name} decide: set ${changed.join(', ')}.`;
    this.#events.record(monitor, 'Updated', note);
  }

  async #delete(monitor: MonitorObject, cronJob: CronJobObject | undefined): Promise<void> {
    const { uid, name } = monitor.metadata;
    await this.#context.kube.delete(MONITORS, monitor.metadata, uid === undefined ? {} : { uid });
    const policy = monitor.spec.deletionPolicy ?? 'Archive';
    const note = `Deleted the Monitor ${name}: nothing asks for it any more. Its monitor goes by its deletion policy, ${policy}.`;
    if (cronJob !== undefined) this.#events.record(cronJob, 'Deleted', note);
  }

  #refused(cronJob: CronJobObject, { message }: KubeError): void {
    this.#events.record(cronJob, 'Refused', `Kubernetes refused the Monitor of this CronJob: ${message}`);
  }

  #sayFaults(cronJob: CronJobObject, faults: readonly string[]): void {
    const { uid = '' } = cronJob.metadata;
    const words = faults.join(' ');
    if ((this.#said.get(uid) ?? '') === words) return;
    if (words === '') this.#said.delete(uid);
    else this.#said.set(uid, words);
    if (this.#said.size > MAX_SAID) this.#said.delete(this.#said.keys().next().value ?? '');
    if (words !== '') this.#events.record(cronJob, 'Refused', words);
  }
}

/** The operator made it, for the CronJob of its name. */
function isMade(monitor: MonitorObject): boolean {
  const { annotations, name } = monitor.metadata;
  if (annotations?.[ANNOTATION.madeFor] !== 'CronJob') return false;
  const owner = controllerOf(monitor);
  return owner?.kind === 'CronJob' && owner.name === name;
}

/** It does not block the deletion of its owner: that would need a right on the owner. */
function ownerOf({ metadata }: CronJobObject): OwnerReference {
  const { apiVersion, kind } = CRON_JOBS;
  return { apiVersion, kind, name: metadata.name, uid: metadata.uid ?? '', controller: true };
}

/** For a merge patch: what the new value lacks is removed. */
function replaced(before: unknown, after: unknown): unknown {
  if (after === undefined) return null;
  if (typeof before !== 'object' || before === null || typeof after !== 'object') return after;
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(after ?? {}, key));
  return { ...after, ...Object.fromEntries(gone.map((key) => [key, null])) };
}

// Which monitors are in a cause now. It looks again at those that a change concerns, and tells nobody.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { IDENTIFIER_PATTERN } from '../../../domain/id.ts';
import { namespaceOfKey, objectKey } from '../../../kube/kube-object.ts';
import { MONITOR_IDENTITY, type MonitorObject } from '../../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import { findProjectName } from '../../known/project-directory.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { findHolders, idOf } from '../../pass/identity.ts';
import { otherReleaseOf } from '../../pass/release.ts';
import { runsKeyOf } from '../workload-of.ts';
import type { WorkloadView } from '../workload-view.ts';
import { allCauses, type ConcernedMonitor, type GroupedCause } from './all-causes.ts';
import { causeOf, type FoundCause } from './cause-of.ts';
import type { CauseWatches } from './cause-watches.ts';

type Context = Pick<OperatorContext, 'namespaces' | 'sharedProjects' | 'projects' | 'settings' | 'watched'>;

/** So many Monitors are looked at before others get their turn. */
const SLICE = 200;

export class CauseBook {
  readonly #context: Context;
  readonly #view: WorkloadView;
  readonly #watches: CauseWatches;
  readonly #monitors: ObjectCache<MonitorObject>;
  /** Keys of Monitors to look at. */
  readonly #due = new Set<string>();
  /** Of those that may change by time alone, when, ms of the process's clock. */
  readonly #timed = new Map<string, number>();
  /** Those with a Job that has no pods, by namespace. */
  readonly #podless = new Map<string, Set<string>>();
  readonly #onDue: () => void;
  #isOpen: boolean = false;
  #isUnknown: boolean = false;

  /** The cache has the index `workload`. `onDue` is called when there is something to look at; it only wakes. */
  constructor(
    context: Context,
    seen: { view: WorkloadView; watches: CauseWatches; monitors: ObjectCache<MonitorObject> },
    onDue: () => void,
  ) {
    this.#context = context;
    this.#view = seen.view;
    this.#watches = seen.watches;
    this.#monitors = seen.monitors;
    this.#onDue = onDue;
    this.#view.caches.subscribe((keys) => this.#addWorkloads(keys));
    this.#monitors.subscribe(({ key, object, previous }) => {
      if (runsKeyOf(object) !== undefined || this.#view.concerns.has(key)) this.#add([key]);
      const isPassed = object.status?.observedGeneration !== previous?.status?.observedGeneration;
      if (isPassed && this.#view.concerns.has(key)) this.#isUnknown = true;
    });
    this.#watches.subscribe({
      nodeChanged: (name) => {
        this.#addWorkloads(this.#view.caches.keysOnNode(name));
        // Those whose pods are gone are on no node any more.
        this.#add(this.#timed.keys());
      },
      quotaChanged: (namespace) => this.#add(this.#podless.get(namespace) ?? []),
      sightChanged: () => this.addAll(),
    });
  }

  /** From now on it is kept: a standby keeps none. Throws ApiProblem while it is not known which projects there are. */
  async open(): Promise<void> {
    if (this.#isOpen) return;
    // Without their ids, monitors would seem to have left their causes.
    await this.#context.projects.refresh();
    this.#isOpen = true;
    this.addAll();
  }

  addAll(): void {
    this.#add(this.#view.concerns.keys());
    for (const monitor of this.#monitors.values())
      if (runsKeyOf(monitor) !== undefined) this.#add([objectKey(monitor)]);
  }

  addNamespace(name: string): void {
    this.#add(this.#monitors.keysInNamespace(name));
  }

  /** In how many ms something is due by time alone; Infinity: nothing is. */
  get nextDueInMs(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const atMs of this.#timed.values()) next = Math.min(next, atMs);
    return Math.max(0, next - performance.now());
  }

  /** Looks at all that are due by now. */
  async update(signal: AbortSignal): Promise<void> {
    const nowMs = performance.now();
    for (const [key, atMs] of this.#timed) if (atMs <= nowMs) this.#due.add(key);
    for (const [place, key] of [...this.#due].entries()) {
      if (place > 0 && place % SLICE === 0) await nextTurn();
      if (signal.aborted) return;
      this.#due.delete(key);
      this.#look(key);
    }
  }

  /**
   * Whether a monitor in a cause has come to the API, or to this operator, since this was asked last: of what was told before
   * the API has taken no notice.
   */
  takeUnknown(): boolean {
    const isUnknown = this.#isUnknown;
    this.#isUnknown = false;
    return isUnknown;
  }

  /** As the API takes them. */
  get causes(): GroupedCause[] {
    return allCauses(this.#view.concerns.values());
  }

  #addWorkloads(keys: Iterable<string>): void {
    for (const key of keys) this.#add(this.#monitors.listBy('workload', key).map(objectKey));
  }

  #add(keys: Iterable<string>): void {
    if (!this.#isOpen) return;
    const before = this.#due.size;
    for (const key of keys) this.#due.add(key);
    if (this.#due.size > before) this.#onDue();
  }

  #look(key: string): void {
    const monitor = this.#monitors.get(key);
    const named = monitor && this.#monitorOf(monitor);
    const found = monitor && named && this.#find(monitor);
    const cause = found?.cause;
    if (named === undefined || cause === undefined) this.#view.concerns.delete(key);
    else this.#view.concerns.set(key, { monitor: named, cause });
    if (found?.dueInMs === undefined) this.#timed.delete(key);
    else this.#timed.set(key, performance.now() + found.dueInMs);
    this.#setPodless(key, found?.wantsPods === true);
  }

  #setPodless(key: string, isPodless: boolean): void {
    const namespace = namespaceOfKey(key);
    const keys = this.#podless.get(namespace) ?? new Set();
    if (isPodless) this.#podless.set(namespace, keys.add(key));
    else if (keys.delete(key) && keys.size === 0) this.#podless.delete(namespace);
  }

  #find(monitor: MonitorObject): FoundCause | undefined {
    const { namespaces, watched } = this.#context;
    const { namespace = '' } = monitor.metadata;
    const workload = runsKeyOf(monitor);
    // What was seen last of a namespace that cannot be read any more says nothing of now.
    if (workload === undefined || !watched.isWatched(namespace)) return undefined;
    const { caches } = this.#view;
    const { workloadRef: ref } = monitor.spec;
    const cronJob = ref?.kind === 'CronJob' ? caches.cronJob(namespace, ref.name) : undefined;
    return causeOf({
      namespace,
      isLeaving: namespaces.get(namespace)?.metadata.deletionTimestamp !== undefined,
      lastSuccessfulTime: cronJob?.status?.lastSuccessfulTime,
      jobs: caches.jobsOf({ namespace, owner: cronJob?.metadata.uid, key: workload }),
      isNodeDown: (name) => this.#watches.isNodeDown(name),
      quotas: this.#watches.quotasIn(namespace),
      nowMs: Date.now(),
    });
  }

  /** As a pass has given it to the Monitor, or as it claims it: of what this operator does not beat the API takes no notice. */
  #monitorOf(monitor: MonitorObject): ConcernedMonitor | undefined {
    const { settings, projects } = this.#context;
    if (otherReleaseOf(monitor, settings.release) !== undefined) return undefined;
    const { held } = this.#monitors.memoryOf(monitor);
    if (held !== undefined) return { projectId: held.projectId, monitorId: held.id };
    const name = findProjectName(this.#context, monitor);
    const projectId = name === undefined ? undefined : projects.knownId(name);
    if (projectId === undefined) return undefined;
    const monitorId = idOf(MONITOR_IDENTITY, monitor);
    // An annotation may say anything: one that is no id must not make the API refuse the others.
    if (!IDENTIFIER_PATTERN.test(monitorId)) return undefined;
    // Nor may one that names the monitor of another object put that into a cause.
    const claim = { object: monitor, id: monitorId, projectId };
    const [holder, ...rivals] = findHolders(
      this.#context,
      { identity: MONITOR_IDENTITY, cache: this.#monitors },
      claim,
    );
    return holder === monitor && rivals.length === 0 ? { projectId, monitorId } : undefined;
  }
}

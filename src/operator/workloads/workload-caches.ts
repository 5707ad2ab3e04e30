// The CronJobs, Jobs and pods of Jobs of the watched namespaces. A Job that is deleted is kept with its pods until its end is
// reported; so is what the pods of a Job said that are gone before it.
import type { KubeClient } from '../../kube/kube-client.ts';
import type { KubeError } from '../../kube/kube-error.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import type { KubeObject, KubeResource } from '../../kube/kube-object.ts';
import { ObjectStore, type StoreChange } from '../../kube/object-store.ts';
import { Reflector, type ReflectorTuning } from '../../kube/reflector.ts';
import type { Watch } from '../known/watched-namespaces.ts';
import {
  CRON_JOBS,
  type CronJobObject,
  controllerOf,
  JOBS,
  type JobObject,
  POD_SELECTOR,
  PODS,
  type PodObject,
} from './batch-objects.ts';
import { isUnfinished, type JobPods } from './causes/cause-of.ts';
import { GoneJobs } from './gone-jobs.ts';
import type { JobView } from './job-state.ts';

export interface WorkloadWatchOptions {
  kube: KubeClient;
  log: KubeLog;
  metrics: KubeMetrics | undefined;
  tuning?: ReflectorTuning | undefined;
  setRefusal(namespace: string, resource: string, refusal: KubeError | undefined): void;
}

/** `namespace/CronJob/name`: what a Monitor refers to. */
export const workloadKey = (namespace = '', kind: string, name: string): string =>
  `${namespace}/${kind}/${name}`;

/** Where the Jobs of a workload are found. */
export interface Runs {
  namespace: string;
  /** UID of the CronJob. */
  owner: string | undefined;
  /** The key of the workload: a Job may be one itself. */
  key: string;
  /** Jobs that belong to it whatever they say: their start was reported. */
  jobUids: readonly string[];
}

/** Called with the keys of the workloads that a change concerns. It only enqueues. */
export type WorkloadListener = (keys: readonly string[], change: 'workload' | 'runs') => void;

type Seen = Pick<Reflector<KubeObject>, 'isFailing' | 'isSilent' | 'hasSynced'>;

/** Pods of a Job that are gone while it is there: a Job that is tried again a thousand times keeps no thousand pods. */
const MAX_GONE_PODS = 5;

export class WorkloadCaches {
  readonly cronJobs = new ObjectStore<CronJobObject>();
  /** Indexes: `owner` (of the controller) and `uid`, as `namespace/UID`, and `key` (as of a workload). */
  readonly jobs = new ObjectStore<JobObject>({ indexes: { owner: ownerUid, uid: ownUid, key: ownKey } });
  /** Indexes: `owner`, and `node` of those that have not ended. */
  readonly pods = new ObjectStore<PodObject>({ indexes: { owner: ownerUid, node: ownNode } });
  /** By UID of the Job. */
  readonly #gonePods = new Map<string, PodObject[]>();
  /** Their places are `namespace/UID` of the owner and of the Job itself, and its key. */
  readonly #goneJobs = new GoneJobs();
  readonly #listeners: WorkloadListener[] = [];
  /** By namespace; of all of them by the empty name. */
  readonly #watches = new Map<string, Seen[]>();
  /** Whether a Monitor refers to the workload. */
  #isWanted: (key: string) => boolean = () => false;

  /** Names the question whether a Monitor refers to a workload: of others nothing is kept. */
  setWanted(isWanted: (key: string) => boolean): void {
    this.#isWanted = isWanted;
  }

  /** From now on what is gone is kept until it is reported. */
  lead(): void {
    this.#goneJobs.lead();
  }

  subscribe(listener: WorkloadListener): void {
    this.#listeners.push(listener);
  }

  /** The watches of a namespace, or of all namespaces. */
  watches(namespace: string | undefined, options: WorkloadWatchOptions): Watch[] {
    return [
      this.#watch(CRON_JOBS, this.cronJobs, (change) => this.#cronJobChanged(change), namespace, options),
      this.#watch(JOBS, this.jobs, (change) => this.#jobChanged(change), namespace, options),
      this.#watch(PODS, this.pods, (change) => this.#podChanged(change), namespace, options),
    ];
  }

  /** The namespaces of which something may happen now that no watch shows; the empty name stands for all of them. */
  get unseen(): string[] {
    const isUnseen = ({ isFailing, isSilent, hasSynced }: Seen) => isFailing || isSilent || !hasSynced;
    return [...this.#watches].flatMap(([namespace, watches]) => (watches.some(isUnseen) ? [namespace] : []));
  }

  /** The namespaces that are watched, as `unseen` names them. */
  get watched(): string[] {
    return [...this.#watches.keys()];
  }

  cronJob(namespace: string | undefined, name: string): CronJobObject | undefined {
    return this.cronJobs.get(`${namespace}/${name}`);
  }

  /** The Jobs of a workload, also those that are gone and not reported for the Monitor. */
  viewsOf({ namespace, owner, key, jobUids }: Runs, monitorUid: string): JobView[] {
    const owners = owner === undefined ? [] : [placeOf(namespace, owner)];
    const own = jobUids.map((uid) => placeOf(namespace, uid));
    const owned = owners.flatMap((place) => this.jobs.listBy('owner', place));
    const itself = this.jobs.listBy('key', key);
    const named = own.flatMap((place) => this.jobs.listBy('uid', place));
    const live = [...new Set([...owned, ...itself, ...named])].map((job) => this.#viewOf(job, false));
    return [...live, ...this.#goneJobs.at([...owners, key, ...own], monitorUid)];
  }

  /** The Jobs of a workload that are there, with their pods. */
  jobsOf({ namespace, owner, key }: Omit<Runs, 'jobUids'>): JobPods[] {
    const owned = owner === undefined ? [] : this.jobs.listBy('owner', placeOf(namespace, owner));
    const jobs = new Set([...owned, ...this.jobs.listBy('key', key)]);
    return [...jobs].map((job) => {
      const { uid = '' } = job.metadata;
      const pods = this.pods.listBy('owner', placeOf(namespace, uid));
      return { job, pods, gonePods: this.#gonePods.get(uid) ?? [] };
    });
  }

  /** The keys of the workloads with pods on a node that have not ended. */
  keysOnNode(name: string): Set<string> {
    const owners = this.pods.listBy('node', name).flatMap(ownerUid);
    return new Set(owners.flatMap((place) => this.jobs.listBy('uid', place)).flatMap(keysOf));
  }

  /** What was gone is reported for the Monitor. Once it is for all of them, nothing keeps it. */
  settle(views: readonly JobView[], monitorUid: string, monitorUids: readonly string[]): void {
    const gone = views.filter(({ isGone }) => isGone);
    this.#goneJobs.settle(gone, monitorUid, monitorUids);
  }

  #viewOf(job: JobObject, isGone: boolean): JobView {
    const { uid = '', namespace } = job.metadata;
    const pods = this.pods.listBy('owner', placeOf(namespace, uid));
    return { job, pods: [...(this.#gonePods.get(uid) ?? []), ...pods], isGone };
  }

  #watch<T extends KubeObject>(
    resource: KubeResource<T>,
    store: ObjectStore<T>,
    onChange: (change: StoreChange<T>) => void,
    namespace: string | undefined,
    { kube: client, log, metrics, tuning, setRefusal }: WorkloadWatchOptions,
  ): Watch {
    const watch = new Reflector<T>({
      ...{ client, resource, store, namespace, onChange, log },
      ...(metrics === undefined ? {} : { metrics }),
      ...(tuning === undefined ? {} : { tuning }),
      ...(resource.kind === 'Pod' ? { labelSelector: POD_SELECTOR } : {}),
      onRefused: (refusal) => setRefusal(namespace ?? '', resource.plural, refusal),
    });
    const place = namespace ?? '';
    this.#watches.set(place, [...(this.#watches.get(place) ?? []), watch]);
    return watch;
  }

  #cronJobChanged({ object: { metadata } }: StoreChange<CronJobObject>): void {
    this.#tell([workloadKey(metadata.namespace, 'CronJob', metadata.name)], 'workload');
  }

  #jobChanged(change: StoreChange<JobObject>): void {
    const { object: job, type } = change;
    const keys = keysOf(job);
    if (type === 'deleted') {
      // Of one that a new list lacks, nobody knows how it ended.
      if (change.isLastState === true && keys.some((key) => this.#isWanted(key))) this.#keep(job);
      this.#gonePods.delete(job.metadata.uid ?? '');
    }
    this.#tell(keys, 'runs');
  }

  #keep(job: JobObject): void {
    const places = [...ownerUid(job), ...ownUid(job), ...ownKey(job)];
    this.#goneJobs.keep(this.#viewOf(job, true), places, performance.now());
  }

  #podChanged(change: StoreChange<PodObject>): void {
    const { object: pod, type } = change;
    const owner = controllerOf(pod);
    if (owner?.kind !== 'Job') return;
    const [job] = this.jobs.listBy('uid', placeOf(pod.metadata.namespace, owner.uid));
    if (job === undefined) return;
    if (type === 'deleted' && keysOf(job).some((key) => this.#isWanted(key))) {
      const gone = [...(this.#gonePods.get(owner.uid) ?? []), pod];
      // The first one says when the Job began, the last ones why it failed.
      const kept = gone.length > MAX_GONE_PODS ? [...gone.slice(0, 1), ...gone.slice(2)] : gone;
      this.#gonePods.set(owner.uid, kept);
    }
    this.#tell(keysOf(job), 'runs');
  }

  #tell(keys: readonly string[], change: 'workload' | 'runs'): void {
    for (const listener of this.#listeners) listener(keys, change);
  }
}

/** The workloads whose runs a Job is: its CronJob, and itself. */
function keysOf(job: JobObject): string[] {
  const { namespace, name } = job.metadata;
  const owner = controllerOf(job);
  const own = workloadKey(namespace, 'Job', name);
  return owner === undefined ? [own] : [own, workloadKey(namespace, owner.kind, owner.name)];
}

/** Owners are of the same namespace: whoever names the UID of another one's object is not its own. */
const placeOf = (namespace = '', uid: string): string => `${namespace}/${uid}`;

/** Of a Job its CronJob, of a pod its Job. */
function ownerUid(object: KubeObject): string[] {
  const owner = controllerOf(object);
  const isOfBatch = owner?.kind === 'CronJob' || owner?.kind === 'Job';
  return owner !== undefined && isOfBatch ? [placeOf(object.metadata.namespace, owner.uid)] : [];
}

function ownNode(pod: PodObject): string[] {
  const { nodeName } = pod.spec ?? {};
  return nodeName === undefined || !isUnfinished(pod) ? [] : [nodeName];
}

function ownKey({ metadata }: KubeObject): string[] {
  return [workloadKey(metadata.namespace, 'Job', metadata.name)];
}

function ownUid({ metadata }: KubeObject): string[] {
  return [placeOf(metadata.namespace, metadata.uid ?? '')];
}

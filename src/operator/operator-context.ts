// What every part of the operator uses: clients, caches, directories. One per process; tests create their own.
import type { RestClient } from '../client/rest-client.ts';
import type { EventRecorder } from '../kube/event-recorder.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeLog } from '../kube/kube-log.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { ObjectStore } from '../kube/object-store.ts';
import type { ReflectorTuning } from '../kube/reflector.ts';
import type { BindingDirectory } from './known/binding-directory.ts';
import type { DestinationChecks } from './known/destination-checks.ts';
import type { MonitorStatusCache } from './known/monitor-status-cache.ts';
import type { ProjectDirectory } from './known/project-directory.ts';
import type { PublishBase } from './known/publish-base.ts';
import type { SharedProjects } from './known/shared-projects.ts';
import type { StatusFeedFollower } from './known/status-feed-follower.ts';
import type { WatchedNamespaces } from './known/watched-namespaces.ts';
import type { OperatorMetrics } from './operator-metrics.ts';
import type { OperatorName } from './workloads/operator-sign.ts';
import type { WorkloadView } from './workloads/workload-view.ts';

export interface OperatorContext {
  kube: KubeClient;
  api: RestClient;
  events: Pick<EventRecorder, 'record'>;
  log: KubeLog;
  metrics: OperatorMetrics;
  /** Empty if single namespaces are watched: then the name of a namespace is its project. */
  namespaces: ObjectStore<KubeObject>;
  watched: WatchedNamespaces;
  sharedProjects: SharedProjects;
  projects: ProjectDirectory;
  bindings: BindingDirectory;
  destinationChecks: DestinationChecks;
  statusCache: MonitorStatusCache;
  feed: StatusFeedFollower;
  publishBase: PublishBase;
  operatorName: OperatorName;
  /** Undefined: the operator does not look at workloads. */
  workloads: WorkloadView | undefined;
  settings: OperatorTuning;
  /** For tests: of the watches of objects and namespaces. */
  watchTuning: ReflectorTuning | undefined;
}

export type Orphans = 'Keep' | 'Archive';

export interface OperatorTuning {
  /** About how long after a pass an object is reconciled again. */
  resyncMs: number;
  /** A status that only a beat has changed is written at most this often. */
  lastBeatPeriodMs: number;
  /** Of all Monitors together: more statuses than these are not written for beats alone. */
  beatWritesPerSecond: number;
  defaultCallbackNamespaces: readonly string[];
  /** When the API is asked again, more or less, for what it refused because of the installation. */
  refusalRetryMs: number;
  /** `<namespace>/<fullname>`: what this release writes on the objects that it manages. */
  release: string;
  /** What happens to monitors whose object is gone. */
  orphans: Orphans;
  /** How long a monitor must have been orphaned before it is archived. */
  orphanArchiveAfterMs: number;
  /** The end of the log of a failed container goes into the message of its beat. */
  workloadLogs: boolean;
  /** Of the watches of CronJobs, Jobs and pods. For tests. */
  workloadWatch?: ReflectorTuning | undefined;
  /** All namespaces are watched, including their annotations. */
  isClusterWide: boolean;
}

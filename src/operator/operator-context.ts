// What every part of the operator works with: clients, caches, directories. One per process; tests make their own.
import type { RestClient } from '../client/rest-client.ts';
import type { EventRecorder } from '../kube/event-recorder.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeLog } from '../kube/kube-log.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { ObjectStore } from '../kube/object-store.ts';
import type { BindingDirectory } from './known/binding-directory.ts';
import type { MonitorStatusCache } from './known/monitor-status-cache.ts';
import type { ProjectDirectory } from './known/project-directory.ts';
import type { StatusFeedFollower } from './known/status-feed-follower.ts';
import type { OperatorMetrics } from './operator-metrics.ts';

export interface OperatorContext {
  kube: KubeClient;
  api: RestClient;
  events: Pick<EventRecorder, 'record'>;
  log: KubeLog;
  metrics: OperatorMetrics;
  /** Empty where single namespaces are watched: then a namespace's name is its project. */
  namespaces: ObjectStore<KubeObject>;
  projects: ProjectDirectory;
  bindings: BindingDirectory;
  statusCache: MonitorStatusCache;
  feed: StatusFeedFollower;
  settings: OperatorTuning;
}

export interface OperatorTuning {
  /** Each object is looked at again after about this time. */
  resyncMs: number;
  /** A new lastBeatAt alone is written at most this often. */
  lastBeatPeriodMs: number;
  defaultCallbackNamespaces: readonly string[];
  /** All namespaces are watched, so that their annotations can be read. */
  isClusterWide: boolean;
}

// What the Monitors read of workloads: the caches, what was reported, the directory, and which causes are seen. One per process.
import type { KubeClient } from '../../kube/kube-client.ts';
import type { Concern } from './causes/all-causes.ts';
import { WorkloadCaches } from './workload-caches.ts';
import { WorkloadDirectory } from './workload-directory.ts';
import { WorkloadReports } from './workload-reports.ts';

export interface WorkloadView {
  readonly caches: WorkloadCaches;
  readonly reports: WorkloadReports;
  readonly directory: WorkloadDirectory;
  /** By key of the Monitor that the cause concerns. Of the leader. */
  readonly concerns: Map<string, Concern>;
}

export function newWorkloadView(kube: KubeClient): WorkloadView {
  const caches = new WorkloadCaches();
  const directory = new WorkloadDirectory(kube, caches);
  return { caches, reports: new WorkloadReports(), directory, concerns: new Map() };
}

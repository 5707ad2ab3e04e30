// What the Monitors read of workloads: the caches, what was reported, and the directory. One per process.
import type { KubeClient } from '../../kube/kube-client.ts';
import { WorkloadCaches } from './workload-caches.ts';
import { WorkloadDirectory } from './workload-directory.ts';
import { WorkloadReports } from './workload-reports.ts';

export interface WorkloadView {
  readonly caches: WorkloadCaches;
  readonly reports: WorkloadReports;
  readonly directory: WorkloadDirectory;
}

export function newWorkloadView(kube: KubeClient): WorkloadView {
  const caches = new WorkloadCaches();
  return { caches, reports: new WorkloadReports(), directory: new WorkloadDirectory(kube, caches) };
}

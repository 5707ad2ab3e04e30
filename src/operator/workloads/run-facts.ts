// What is known of the Jobs of a workload, and what was reported of them.
import type { CronJobObject } from './batch-objects.ts';
import type { JobView } from './job-state.ts';

/** What was reported of one Job. */
export interface RunRecord {
  /** UID of the Job. */
  uid: string;
  /** When the reported start was. Without `ended`: the run is open at the API. */
  started?: string;
  ended?: string;
  /** A fail said that it cannot start. */
  blocked?: boolean;
  /** How often it was suspended while it ran. */
  pauses?: number;
}

/** What was reported of a workload: `status.workload` of its Monitor. */
export interface ReportedRuns {
  /** Which workload that was; empty: none any more. */
  ref?: string;
  /** UID of the CronJob. */
  uid?: string;
  /** What ended before is not reported. */
  since: string;
  lastScheduleTime?: string;
  lastSuccessfulTime?: string;
  runs?: RunRecord[];
}

export interface RunFacts {
  /** The workload that the Monitor refers to; empty: none. */
  ref: string;
  /** Undefined: there is none. */
  cronJob: CronJobObject | undefined;
  /** The Jobs of the CronJob, and those of open runs. */
  jobs: readonly JobView[];
  reported: ReportedRuns;
  /** Since when the namespace is being deleted. */
  namespaceLeaving?: string | undefined;
  nowMs: number;
}

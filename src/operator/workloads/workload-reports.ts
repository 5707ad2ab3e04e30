// What this process has reported of the Jobs of each Monitor, and what the API refused of it. The status of the Monitor
// remembers it beyond the process: a beat that the status does not have yet is sent again under its key, and counts once.
import { formatSeconds } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { ReportedRuns } from './run-facts.ts';

export interface Report {
  reported: ReportedRuns;
  /** Why the API refused the last beat; undefined: it took it. */
  refusal?: string | undefined;
}

export class WorkloadReports {
  readonly #reports = new Map<string, Report>();
  readonly #listeners: ((key: string, isStart: boolean) => void)[] = [];

  /** Calls the listener with the key of a Monitor of which something was reported. It only enqueues. */
  subscribe(listener: (key: string, isStart: boolean) => void): void {
    this.#listeners.push(listener);
  }

  /** What was reported for a Monitor with a workload; the first time, from when on it reports. */
  of(monitor: MonitorObject): Report {
    const { uid = '' } = monitor.metadata;
    const known = this.#reports.get(uid);
    if (known !== undefined) return known;
    const report: Report = { reported: monitor.status?.workload ?? { since: sinceOf(monitor) } };
    this.#reports.set(uid, report);
    return report;
  }

  has({ metadata }: MonitorObject): boolean {
    return this.#reports.has(metadata.uid ?? '');
  }

  tell(key: string, isStart: boolean): void {
    for (const listener of this.#listeners) listener(key, isStart);
  }

  forget({ metadata }: MonitorObject): void {
    this.#reports.delete(metadata.uid ?? '');
  }
}

/** A Monitor that was made with its workload watches from its creation on; one that got it later, from now on. */
function sinceOf({ metadata, status }: MonitorObject): string {
  const { creationTimestamp, generation } = metadata;
  const isNew = generation === 1 && status?.monitorId === undefined;
  return isNew && creationTimestamp !== undefined ? creationTimestamp : formatSeconds(Date.now());
}

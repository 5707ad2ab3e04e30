// The condition WorkloadWatched of a Monitor: what its workload gives to it, or why not. Pure.
import { causeWords, type NamedCause } from '../../domain/operator-cause.ts';
import type { ConditionFacts } from '../../kube/conditions.ts';
import type { Workload } from './workload-of.ts';

export interface WorkloadFaults {
  /** Why the schedule is not taken. */
  schedule: string | undefined;
  /** Why the API refused the last beat. */
  beat: string | undefined;
  /** What keeps its Jobs from running. */
  cause?: NamedCause | undefined;
}

export function workloadCondition(workload: Workload, faults: WorkloadFaults): ConditionFacts {
  const { ref, object, isEnabled } = workload;
  const what = `${ref.kind} ${ref.name}`;
  if (!isEnabled) {
    const message = `The operator does not look at workloads: the chart's value operator.workloads.enabled is false. Send the beats from the job itself, to the address in the Secret of this Monitor.`;
    return no('WorkloadsDisabled', message);
  }
  const beats = ref.apiVersion === 'batch/v1';
  if (object === undefined) {
    const rest = ref.kind === 'CronJob' ? ' The monitor stays as it is, and its deadline runs on.' : '';
    return no(
      'WorkloadNotFound',
      `There is no ${what} in this namespace: make it, or name another one.${rest}`,
    );
  }
  if (!beats) {
    const message = `${what} gives its name and its labels. It sends its beats itself, to the address in the Secret of this Monitor.`;
    return { type: 'WorkloadWatched', status: 'True', reason: 'NameAndLabels', message };
  }
  if (faults.schedule !== undefined) return no('ScheduleNotUnderstood', faults.schedule);
  if (faults.beat !== undefined) return no('BeatRefused', `The API refused the last beat: ${faults.beat}`);
  const jobs = ref.kind === 'Job' ? what : `the Jobs of ${what}`;
  const message = `The operator sends the beats of ${jobs}.${causeText(faults.cause)}`;
  return { type: 'WorkloadWatched', status: 'True', reason: 'Watching', message };
}

/** Empty without one. */
export function causeText(cause: NamedCause | undefined): string {
  if (cause === undefined) return '';
  return ` ${causeWords(cause)}: one alert tells of it for all monitors that it concerns.`;
}

function no(reason: string, message: string): ConditionFacts {
  return { type: 'WorkloadWatched', status: 'False', reason, message };
}

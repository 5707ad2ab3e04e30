// What a workload gives to its Monitor: schedule, time zone and suspension of a CronJob, and name and labels of any. Pure.
import { cron, timeZone } from '../../contract/resources/schedule.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { MonitorObject } from '../kinds/monitor/monitor-object.ts';
import type { CronJobObject } from './batch-objects.ts';
import { workloadKey } from './workload-caches.ts';

type Spec = MonitorObject['spec'];
export type WorkloadRef = NonNullable<Spec['workloadRef']>;

/** The workload of a Monitor as this pass has found it. */
export interface Workload {
  ref: WorkloadRef;
  /** Undefined: there is none of that name, or nobody looks. */
  object: KubeObject | undefined;
  /** Of a CronJob that is there. */
  cronJob?: CronJobObject | undefined;
  /** The operator looks at workloads at all. */
  isEnabled: boolean;
}

/** What of the spec comes from the workload. */
export interface WorkloadSpec {
  spec: Spec;
  /** Fields that an earlier pass has set from the workload, and that stay although it is gone or not understood. */
  kept: readonly string[];
  /** Why the schedule of the CronJob is not taken. */
  fault?: string;
}

/** The key of the workload whose runs the operator reports; undefined: it sends no beats for this Monitor. */
export function runsKeyOf({ metadata, spec }: MonitorObject): string | undefined {
  const { workloadRef: ref } = spec;
  if (ref === undefined || ref.apiVersion !== 'batch/v1') return undefined;
  return workloadKey(metadata.namespace, ref.kind, ref.name);
}

/** Where a time zone is stated nowhere: that of the controller, which is UTC as a rule. */
const CRON_TIME_ZONE = 'Etc/UTC';
const DEFAULT_GRACE_SECONDS = 300;
const YEAR_SECONDS = 31_536_000;

/** Fields that a CronJob gives. Labels come on top. */
const GIVEN = ['awaitFirstBeat', 'graceSeconds', 'lifecycle', 'schedule', 'schedule.timeZone'];

/** The spec with what the CronJob says. What the spec itself states of these wins, but for a suspension. */
export function withWorkload(
  spec: Spec,
  workload: Workload | undefined,
  owned: readonly string[],
): WorkloadSpec {
  if (workload === undefined || !workload.isEnabled) return { spec, kept: [] };
  if (workload.object === undefined) {
    // The deadline runs on: a CronJob that is gone by mistake must be missed.
    return { spec, kept: owned.filter((field) => GIVEN.includes(field) || field.startsWith('labels.')) };
  }
  const { cronJob } = workload;
  if (cronJob === undefined) return { spec, kept: [] };
  const isPaused = cronJob.spec.suspend === true && spec.lifecycle !== 'archived';
  const common: Spec = {
    ...spec,
    awaitFirstBeat: spec.awaitFirstBeat ?? false,
    ...(spec.graceSeconds === undefined ? graceOf(cronJob) : {}),
    ...(isPaused ? { lifecycle: 'paused' as const } : {}),
  };
  if (spec.intervalSeconds !== undefined || spec.schedule !== undefined) return { spec: common, kept: [] };
  const schedule = scheduleOf(cronJob);
  if ('fault' in schedule) {
    const kept = ['schedule', 'schedule.timeZone'].filter((field) => owned.includes(field));
    return { spec: common, kept, fault: schedule.fault };
  }
  return { spec: { ...common, schedule }, kept: [] };
}

/** A run may begin as late as the CronJob says. */
function graceOf({ spec }: CronJobObject): Pick<Spec, 'graceSeconds'> {
  const { startingDeadlineSeconds: late = 0 } = spec;
  return late === 0 ? {} : { graceSeconds: Math.min(YEAR_SECONDS, DEFAULT_GRACE_SECONDS + late) };
}

/** What Kubernetes takes for five fields. */
const NICKNAMES: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

/** As the API takes it, or why it does not. */
export function scheduleOf({
  metadata,
  spec,
}: CronJobObject): NonNullable<Spec['schedule']> | { fault: string } {
  const [, prefixZone, text = ''] = /^(?:(?:CRON_)?TZ=(\S+)\s+)?(.*)$/s.exec(spec.schedule.trim()) ?? [];
  const expression = (NICKNAMES[text.trim()] ?? text).trim().replaceAll(/\s+/g, ' ');
  // The two parsers mean the same by "?" and "*" here; the API has no word for "?".
  const fields = expression.replaceAll('?', '*');
  const zone = spec.timeZone ?? prefixZone ?? CRON_TIME_ZONE;
  const parsedCron = cron.safeParse(fields);
  const parsedZone = timeZone.safeParse(zone);
  if (parsedCron.success && parsedZone.success) return { cron: fields, timeZone: zone };
  const what = parsedCron.success ? `time zone ${zone}` : `schedule "${spec.schedule}"`;
  const why = [...(parsedCron.error?.issues ?? []), ...(parsedZone.error?.issues ?? [])][0]?.message ?? '';
  const fault = `The ${what} of CronJob ${metadata.name} is not taken: ${why} Change it there, or set intervalSeconds in this spec.`;
  return { fault };
}

// Jobs with their pods, as the caches show them, for tests of what they ask for.
import { formatSeconds } from '../../../src/kube/kube-object.ts';
import type {
  ContainerState,
  CronJobObject,
  JobCondition,
  JobObject,
  PodObject,
} from '../../../src/operator/workloads/batch-objects.ts';
import type { JobView } from '../../../src/operator/workloads/job-state.ts';
import type { ReportedRuns, RunFacts } from '../../../src/operator/workloads/run-facts.ts';
import type { RunPlan } from '../../../src/operator/workloads/runs-of.ts';

export const START_MS = Date.parse('2026-03-01T02:00:00Z');
/** `seconds` after the first moment of the tests. */
export const at = (seconds: number): string => formatSeconds(START_MS + seconds * 1000);

export function cronJob(more: { spec?: object; status?: object; metadata?: object } = {}): CronJobObject {
  return {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: {
      name: 'backup',
      namespace: 'shop',
      uid: 'cron',
      creationTimestamp: at(-3600),
      ...more.metadata,
    },
    spec: { schedule: '0 2 * * *', ...more.spec },
    status: { ...more.status },
  };
}

export interface JobFacts {
  uid?: string;
  startTime?: string;
  completed?: string;
  failed?: { at: string; reason: string; message?: string };
  suspend?: boolean;
  deletionTimestamp?: string;
  /** Before the terminal one. */
  conditions?: JobCondition[];
}

export function job(facts: JobFacts = {}): JobObject {
  const { uid = 'job', startTime, completed, failed, suspend, deletionTimestamp, conditions = [] } = facts;
  const end: JobCondition[] = [
    ...(completed === undefined ? [] : [{ type: 'Complete', status: 'True', lastTransitionTime: completed }]),
    ...(failed === undefined
      ? []
      : [
          {
            type: 'Failed',
            status: 'True',
            lastTransitionTime: failed.at,
            reason: failed.reason,
            message: failed.message ?? '',
          },
        ]),
  ];
  return {
    metadata: {
      name: `backup-${uid}`,
      namespace: 'shop',
      uid,
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: { ...(suspend === undefined ? {} : { suspend }) },
    status: {
      ...(startTime === undefined ? {} : { startTime }),
      ...(completed === undefined ? {} : { completionTime: completed }),
      conditions: [...conditions, ...end],
    },
  };
}

export function pod(
  state: ContainerState,
  more: { lastState?: ContainerState; reason?: string; name?: string } = {},
): PodObject {
  const { lastState, reason, name = 'backup-pod' } = more;
  return {
    metadata: { name, namespace: 'shop' },
    status: {
      ...(reason === undefined ? {} : { reason }),
      containerStatuses: [{ name: 'main', state, ...(lastState === undefined ? {} : { lastState }) }],
    },
  };
}

export const running = (startedAt: string): PodObject => pod({ running: { startedAt } });
export const waiting = (reason: string): PodObject => pod({ waiting: { reason } });
export const ended = (exitCode: number, startedAt: string, finishedAt: string, reason?: string): PodObject =>
  pod({ terminated: { exitCode, startedAt, finishedAt, ...(reason === undefined ? {} : { reason }) } });

export const view = (one: JobObject, pods: PodObject[] = [], isGone = false): JobView => ({
  job: one,
  pods,
  isGone,
});

export const NOTHING: ReportedRuns = { uid: 'cron', since: at(-600) };

export const factsOf = (jobs: JobView[], more: Partial<RunFacts> = {}): RunFacts => ({
  ...{ ref: 'ns/CronJob/backup', cronJob: cronJob(), jobs, reported: NOTHING, nowMs: START_MS + 3_600_000 },
  ...more,
});

/** `start@2026-…`, in order. */
export const said = ({ steps }: RunPlan): string[] =>
  steps.map(({ beat: { body } }) => `${body.status} ${body.runId} ${body.observedAt}`);

// What may happen to the Jobs of a CronJob on a whole cluster, and exactly what its monitor has then: one row a case. Each case has
// a CronJob, or a Job, of its own, and its Jobs end as the case says.
import { waitFor } from '../support/wait-for.ts';
import type { Cluster } from './cluster.ts';
import type { MonitorRecords } from './monitor-records.ts';
import type { ToldJobs } from './told-jobs.ts';

export interface WorkloadCase {
  /** Of its CronJob, over the common one. */
  cronJob?: object;
  /** Of the Jobs. */
  job?: object;
  container?: object;
  /** Fields of a Monitor; without them the CronJob has the annotation and no Monitor of the user's. */
  monitor?: object;
  /** It has a Job in place of a CronJob. */
  isJob?: boolean;
  /** Where no Job may be made. */
  isShut?: boolean;
  /** In how many minutes, one after the other, its CronJob is due: 0 for never. */
  times: number;
  /** `job` has the name of the Job of the first minute, or of the second. */
  act(tools: CaseTools): Promise<void>;
  observations: readonly string[];
  incidents: readonly string[];
}

export interface CaseTools {
  name: string;
  namespace: string;
  job(minute?: number): string;
  told: ToldJobs;
  cluster: Cluster;
  records: MonitorRecords;
}

/** As soon as it runs. */
const endWith =
  (...exitCodes: number[]) =>
  async ({ told, job }: Pick<CaseTools, 'told' | 'job'>) => {
    for (const exitCode of exitCodes) (await told.next(job())).end(exitCode);
  };
const nothing = async () => undefined;
/** By hand, of its CronJob. */
const createFrom = ({ cluster, namespace, name }: CaseTools) =>
  cluster.kubectl('-n', namespace, 'create', 'job', `${name}-1`, `--from=cronjob/${name}`);

const STARTED = ['1 start'];
const SUCCEEDED = ['1 start', '1 success'];
const FAILED = ['reported_failure open'];
/** So short that the test sees it pass. */
const STRICT = { graceSeconds: 15 };
const NO_RETRY = { backoffLimit: 0 };

/** They need an operator that sees them. */
export const WATCHED_CASES: Readonly<Record<string, WorkloadCase>> = {
  succeeds: { times: 1, act: endWith(0), observations: SUCCEEDED, incidents: [] },
  fails: {
    ...{ times: 1, job: { backoffLimit: 1 }, act: endWith(3, 4), incidents: FAILED },
    observations: [
      '1 start',
      '1 fail 4: Job fails failed: BackoffLimitExceeded. Container main of pod fails: exit code 4.',
    ],
  },
  retried: { times: 1, act: endWith(3, 0), observations: SUCCEEDED, incidents: [] },
  collected: {
    ...{ times: 1, job: { ttlSecondsAfterFinished: 0 }, act: endWith(0) },
    ...{ observations: SUCCEEDED, incidents: [] },
  },
  'collected-failed': {
    ...{ times: 1, job: { ...NO_RETRY, ttlSecondsAfterFinished: 0 }, act: endWith(3), incidents: FAILED },
    observations: [
      '1 start',
      '1 fail 3: Job collected-failed failed: BackoffLimitExceeded. Container main of pod collected-failed: exit code 3.',
    ],
  },
  'over-deadline': {
    ...{ times: 1, job: { activeDeadlineSeconds: 45 }, act: nothing, incidents: FAILED },
    observations: [
      '1 start',
      '1 fail 143: Job over-deadline failed: DeadlineExceeded. Container main of pod over-deadline: exit code 143.',
    ],
  },
  'out-of-memory': {
    ...{ times: 1, job: NO_RETRY, act: nothing, incidents: FAILED },
    container: { command: ['tail', '/dev/zero'], resources: { limits: { memory: '32Mi' } } },
    observations: [
      '1 start',
      '1 fail 137: Job out-of-memory failed: BackoffLimitExceeded. Container main of pod out-of-memory: OOMKilled, exit code 137.',
    ],
  },
  'no-image': {
    ...{ times: 1, incidents: FAILED },
    container: { image: '127.0.0.1:1/absent:1', imagePullPolicy: 'IfNotPresent' },
    observations: [
      '1 fail: Job no-image cannot start: ImagePullBackOff. Container main of pod no-image waits.',
    ],
    // It never ran, so its end says nothing more.
    async act({ cluster, namespace, records, name, job }) {
      await records.untilIncidents(name, FAILED);
      await cluster.kubectl('-n', namespace, 'delete', 'job', job(), '--timeout=300s');
    },
  },
  indexed: {
    ...{
      times: 1,
      job: { completionMode: 'Indexed', completions: 3, parallelism: 3 },
      act: endWith(0, 0, 0),
    },
    ...{ observations: SUCCEEDED, incidents: [] },
  },
  'indexed-failed': {
    times: 1,
    job: { completionMode: 'Indexed', completions: 2, parallelism: 2, backoffLimitPerIndex: 0 },
    ...{ act: endWith(0, 5), incidents: FAILED },
    observations: [
      '1 start',
      '1 fail 5: Job indexed-failed failed: FailedIndexes. Container main of pod indexed-failed: exit code 5.',
    ],
  },
  'by-hand': {
    ...{ times: 0, observations: SUCCEEDED, incidents: [] },
    async act(tools) {
      await createFrom(tools);
      await endWith(0)({ ...tools, job: () => `${tools.name}-1` });
    },
  },
  deleted: {
    ...{ times: 1, incidents: [] },
    observations: ['1 start', '1 log: Job deleted was deleted while it ran.'],
    async act({ cluster, namespace, records, name, job }) {
      await records.untilObserved(name, STARTED);
      await cluster.kubectl('-n', namespace, 'delete', 'job', job(), '--timeout=300s');
    },
  },
  stopped: {
    ...{ times: 0, isJob: true, monitor: {}, incidents: [] },
    observations: ['1 start', '1 log: Job stopped was suspended.', '1 start', '1 success'],
    async act({ cluster, namespace, records, name, told }) {
      const suspend = (is: boolean) =>
        cluster.kubectl('-n', namespace, 'patch', 'job', name, '--patch', `{"spec": {"suspend": ${is}}}`);
      await told.next(name);
      await records.untilObserved(name, STARTED);
      await suspend(true);
      await records.untilObserved(name, [...STARTED, '1 log: Job stopped was suspended.']);
      await suspend(false);
      (await told.next(name)).end(0);
    },
  },
  overruns: {
    ...{ times: 1, monitor: { maxRuntimeSeconds: 20 } },
    ...{ observations: SUCCEEDED, incidents: ['overdue_run recovered'] },
    async act({ told, records, name, job }) {
      const container = await told.next(job());
      await records.untilIncidents(name, ['overdue_run open']);
      container.end(0);
    },
  },
  // Its next Jobs are due while the first one runs, and are not made.
  hangs: {
    ...{ times: 9, cronJob: { concurrencyPolicy: 'Forbid' }, monitor: { graceSeconds: 40 }, act: nothing },
    ...{ observations: STARTED, incidents: ['missed_deadline open'] },
  },
  suspended: {
    ...{ times: 2, cronJob: { suspend: true }, monitor: STRICT, act: nothing },
    ...{ observations: [], incidents: [] },
  },
  'cannot-start': {
    ...{ times: 1, cronJob: { startingDeadlineSeconds: 10 }, monitor: STRICT, isShut: true, act: nothing },
    ...{ observations: [], incidents: ['missed_deadline open'] },
  },
  allowed: {
    ...{ times: 2, cronJob: { concurrencyPolicy: 'Allow' }, incidents: [] },
    observations: ['1 start', '1 success', '2 start', '2 success'],
    async act({ told, job, records, name }) {
      const first = await told.next(job(1));
      const second = await told.next(job(2));
      await records.untilObserved(name, ['1 start', '2 start']);
      first.end(0);
      await records.untilObserved(name, ['1 start', '1 success', '2 start']);
      second.end(0);
    },
  },
  // Kubernetes makes the second Job late, when the first one has ended.
  forbidden: {
    ...{ times: 2, cronJob: { concurrencyPolicy: 'Forbid' }, incidents: [] },
    observations: ['1 start', '1 success', '2 start', '2 success'],
    async act({ told, job, cluster, namespace, name }) {
      const first = await told.next(job(1));
      const about = ['--for', `cronjob/${name}`, '--types', 'Normal'];
      const events = () => cluster.kubectl('-n', namespace, 'events', ...about);
      const isDue = async () => (await events()).includes('JobAlreadyActive');
      await waitFor(isDue, { what: 'the second Job is due', timeoutMs: 300_000, intervalMs: 1_000 });
      first.end(0);
      (await told.next(job(2))).end(0);
    },
  },
  replaced: {
    ...{ times: 2, cronJob: { concurrencyPolicy: 'Replace' }, incidents: [] },
    observations: ['1 start', '1 log: Job replaced was deleted while it ran.', '2 start', '2 success'],
    async act({ told, job }) {
      await told.next(job(1));
      (await told.next(job(2))).end(0);
    },
  },
};

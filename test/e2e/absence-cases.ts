// What may happen to the Jobs of a CronJob while no operator is there, and exactly what its monitor has when one is back: one row a
// case.
import { waitFor } from '../support/wait-for.ts';
import type { CaseTools, WorkloadCase } from './workload-cases.ts';

export interface AbsenceCase extends Omit<WorkloadCase, 'act'> {
  /** While an operator is there: a Job begins, and its start is told. */
  begin?(tools: CaseTools): Promise<void>;
  /** While none is there. */
  go(tools: CaseTools): Promise<void>;
}

const create = ({ cluster, namespace, name }: CaseTools) =>
  cluster.kubectl('-n', namespace, 'create', 'job', `${name}-1`, `--from=cronjob/${name}`);

const begin = async (tools: CaseTools) => {
  await create(tools);
  await tools.records.untilObserved(tools.name, ['1 start']);
};

const waitForJob = ({ cluster, namespace }: CaseTools, job: string, state: string) =>
  cluster.kubectl('-n', namespace, 'wait', `--for=${state}`, `job/${job}`, '--timeout=300s');

/** The Job that was begun by hand ends, and is still there. */
const end = (exitCode: number) => async (tools: CaseTools) => {
  const job = `${tools.name}-1`;
  (await tools.told.next(job)).end(exitCode);
  await waitForJob(tools, job, `condition=${exitCode === 0 ? 'Complete' : 'Failed'}`);
};

/** The Job of the first minute ends, and is gone at once. */
const vanish = (exitCode: number) => async (tools: CaseTools) => {
  (await tools.told.next(tools.job())).end(exitCode);
  const isGone = async () => (await tools.cluster.find('job', tools.job(), tools.namespace)) === undefined;
  await waitFor(isGone, { what: `${tools.job()} is gone`, timeoutMs: 300_000, intervalMs: 500 });
};

const failure = (name: string) => [
  '1 start',
  `1 fail 3: Job ${name} failed: BackoffLimitExceeded. Container main of pod ${name}: exit code 3.`,
];
const FAILED = ['reported_failure open'];
const NO_RETRY = { backoffLimit: 0 };
const COLLECTED = { backoffLimit: 0, ttlSecondsAfterFinished: 0 };

/** The operator is killed, and another one comes. */
export const KILL_CASES: Readonly<Record<string, AbsenceCase>> = {
  'killed-ended': { times: 0, begin, go: end(0), observations: ['1 start', '1 success'], incidents: [] },
  'killed-failed': {
    ...{ times: 0, job: NO_RETRY, begin, go: end(3) },
    ...{ observations: failure('killed-failed'), incidents: FAILED },
  },
  'killed-made': {
    ...{ times: 0, observations: ['1 start', '1 success'], incidents: [] },
    async go(tools) {
      await create(tools);
      await end(0)(tools);
    },
  },
};

/** The operator is away for longer than a deadline. */
export const AWAY_CASES: Readonly<Record<string, AbsenceCase>> = {
  'away-ended': { times: 0, begin, go: end(0), observations: ['1 start', '1 success'], incidents: [] },
  'away-failed': {
    ...{ times: 0, job: NO_RETRY, begin, go: end(3) },
    ...{ observations: failure('away-failed'), incidents: FAILED },
  },
  'away-deleted': {
    ...{ times: 0, begin, incidents: [] },
    observations: [
      '1 start',
      '1 log: The end of this run was not seen: its Job is gone, and no operator was there.',
    ],
    go: async ({ cluster, namespace, name }) =>
      void (await cluster.kubectl('-n', namespace, 'delete', 'job', `${name}-1`, '--timeout=300s')),
  },
  'away-ran': {
    ...{ times: 1, monitor: { graceSeconds: 15 }, observations: ['1 start', '1 success'], incidents: [] },
    async go(tools) {
      (await tools.told.next(tools.job())).end(0);
      await waitForJob(tools, tools.job(), 'condition=Complete');
    },
  },
  'away-vanished': {
    ...{ times: 1, job: COLLECTED, monitor: { graceSeconds: 15 }, go: vanish(0), incidents: [] },
    observations: [
      '1 success: A Job of CronJob away-vanished completed. It is gone, and no operator saw it.',
    ],
  },
  // Nothing is left of it, and nothing is invented: the next run decides.
  'away-failed-vanished': {
    ...{ times: 1, job: COLLECTED, monitor: { graceSeconds: 15 }, go: vanish(3) },
    ...{ observations: [], incidents: [] },
  },
  // None of its runs can start. It is found after the absence.
  'away-dead': {
    ...{ times: 6, monitor: { graceSeconds: 15 }, isShut: true, go: async () => undefined },
    ...{ observations: [], incidents: ['missed_deadline open'] },
  },
};

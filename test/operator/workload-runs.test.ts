// A Monitor with a workloadRef to a CronJob: the operator sends the beats of its Jobs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { ago, type JobFixture, jobFixture } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const cronJobRef = (name: string) => ({ apiVersion: 'batch/v1', kind: 'CronJob', name });

describe.skipIf(!hasCluster)('a Monitor of a CronJob', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
    await fixture.startOperator();
  });
  afterAll(() => fixture.close());

  const watched = async (name: string, spec: object = {}) => {
    const cronJob = await jobs.createCronJob(name, spec);
    await fixture.createMonitor(name, { ...disabled, workloadRef: cronJobRef(name) });
    await fixture.monitorBecomes(name, 'WorkloadWatched', 'True', 'Watching');
    await fixture.monitorBecomes(name, 'Ready', 'True');
    return cronJob;
  };

  it('beats when a Job of it starts and completes, with its run, its times and its duration', async () => {
    const cronJob = await watched('backup');
    const job = await jobs.createJob('backup-1', cronJob);
    const [startedAt, endedAt] = [ago(70), ago(10)];
    await jobs.startJob('backup-1', startedAt);
    await jobs.beats('backup', ['start']);
    await jobs.completeJob('backup-1', endedAt);
    const [start, end] = await jobs.beats('backup', ['start', 'success']);
    const runId = job.metadata.uid;
    expect(start).toMatchObject({ runId, observedAt: new Date(startedAt).toISOString() });
    expect(end).toMatchObject({ runId, observedAt: new Date(endedAt).toISOString() });
    const { status } = await fixture.monitorBecomes('backup', 'Healthy', 'True');
    expect(status?.display?.interval).toBe('cron 0 2 * * *');
  });
});

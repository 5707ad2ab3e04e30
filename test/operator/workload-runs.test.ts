// A Monitor with a workloadRef to a CronJob: the operator sends the beats of its Jobs, from what the Jobs are and not from Events.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ago, cronJobRef, type JobFixture, jobFixture, timesBefore } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

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
    const cronJob = await jobs.createCronJob(name);
    await fixture.createMonitor(name, { ...disabled, ...spec, workloadRef: cronJobRef(name) });
    await fixture.monitorBecomes(name, 'WorkloadWatched', 'True', 'Watching');
    await fixture.monitorBecomes(name, 'Ready', 'True');
    return cronJob;
  };
  const incidents = async (name: string) => {
    const { status } = await fixture.monitor(name);
    const query = { monitorId: status?.monitorId ?? '' };
    const { body } = await fixture.api.expectSuccess('listIncidents', { query });
    return body.items.map(({ kind }) => kind);
  };
  /** Resolves when the operator has seen a state, of which nobody is to hear: a Job after it has beaten. */
  const afterAnother = async (name: string, cronJob: Awaited<ReturnType<typeof watched>>) => {
    await jobs.createJob(`${name}-last`, cronJob);
    await jobs.startJob(`${name}-last`, ago(0));
    await jobs.completeJob(`${name}-last`);
  };

  it('beats when a Job of it starts and completes, with its run, its times and its duration', async () => {
    const cronJob = await watched('backup');
    const job = await jobs.createJob('backup-1', cronJob);
    const before = timesBefore(Date.now());
    const [startedAt, endedAt] = [before(70), before(10)];
    await jobs.startJob('backup-1', startedAt);
    await jobs.beats('backup', ['start']);
    await jobs.completeJob('backup-1', endedAt);
    const [start, end] = await jobs.beats('backup', ['start', 'success']);
    const runId = job.metadata.uid;
    expect(start).toMatchObject({
      runId,
      observedAt: new Date(startedAt).toISOString(),
      message: 'Job backup-1.',
    });
    expect(end).toMatchObject({ runId, observedAt: new Date(endedAt).toISOString(), durationSeconds: 60 });
    const { status } = await fixture.monitorBecomes('backup', 'Healthy', 'True');
    expect(status?.display?.interval).toBe('cron 0 2 * * *');
    // Nobody is told by an Event, and a second look at the Job says nothing.
    expect((await fixture.events('backup-1')).map(({ reason }) => reason)).toEqual([]);
  });

  it('fails with a Job that failed, and says why its container ended', async () => {
    const cronJob = await watched('broken');
    const job = await jobs.createJob('broken-1', cronJob);
    await jobs.startJob('broken-1', ago(30));
    const died = { startedAt: ago(30), exitCode: 137, reason: 'OOMKilled' };
    await jobs.setPod('broken-1-pod', job, died, { phase: 'Failed' });
    await jobs.failJob('broken-1', 'BackoffLimitExceeded');
    const [, fail] = await jobs.beats('broken', ['start', 'fail']);
    expect(fail).toMatchObject({ runId: job.metadata.uid, exitStatus: 137 });
    expect(fail?.message).toBe(
      'Job broken-1 failed: BackoffLimitExceeded. Container main of pod broken-1-pod: OOMKilled, exit code 137.',
    );
    expect(await incidents('broken')).toEqual(['reported_failure']);
  });

  it('says the reason of a Job that was over its deadline and has no pod any more', async () => {
    const cronJob = await watched('slow');
    await jobs.createJob('slow-1', cronJob, { spec: { activeDeadlineSeconds: 10 } });
    await jobs.startJob('slow-1', ago(30));
    await jobs.beats('slow', ['start']);
    await jobs.deletePod('slow-1-pod');
    await jobs.failJob('slow-1', 'DeadlineExceeded');
    const [, fail] = await jobs.beats('slow', ['start', 'fail']);
    expect(fail?.message).toBe('Job slow-1 failed: DeadlineExceeded.');
  });

  it('does not fail with a pod that is tried again before the Job has failed', async () => {
    const cronJob = await watched('retried');
    const job = await jobs.createJob('retried-1', cronJob);
    await jobs.startJob('retried-1', ago(30));
    const died = { startedAt: ago(30), exitCode: 1, reason: 'Error' };
    await jobs.setPod('retried-1-pod', job, died, { phase: 'Failed' });
    await jobs.setPod('retried-1-second', job, { startedAt: ago(5) });
    await jobs.completeJob('retried-1');
    await jobs.beats('retried', ['start', 'success']);
    expect(await incidents('retried')).toEqual([]);
  });

  it('keeps what the container of a pod said that is gone before its Job fails', async () => {
    const cronJob = await watched('swept');
    const job = await jobs.createJob('swept-1', cronJob);
    await jobs.startJob('swept-1', ago(30));
    await jobs.beats('swept', ['start']);
    await jobs.setPod('swept-1-pod', job, { startedAt: ago(30), exitCode: 3 }, { phase: 'Failed' });
    await jobs.deletePod('swept-1-pod');
    await jobs.failJob('swept-1', 'BackoffLimitExceeded');
    const [, fail] = await jobs.beats('swept', ['start', 'fail']);
    expect(fail?.exitStatus).toBe(3);
  });

  it('fails once while an image cannot be pulled, and goes on when the Job runs after all', async () => {
    const cronJob = await watched('image');
    const job = await jobs.createJob('image-1', cronJob);
    await jobs.setPod('image-1-pod', job, { waiting: 'ErrImagePull' }, { phase: 'Pending' });
    await jobs.setPod('image-1-pod', job, { waiting: 'ImagePullBackOff' }, { phase: 'Pending' });
    const [fail] = await jobs.beats('image', ['fail']);
    expect(fail?.message).toBe(
      'Job image-1 cannot start: ImagePullBackOff. Container main of pod image-1-pod waits.',
    );
    await jobs.startJob('image-1');
    await jobs.completeJob('image-1');
    await jobs.beats('image', ['fail', 'start', 'success']);
  });

  it('ends the run of a Job that is suspended, and starts it again when it goes on', async () => {
    const cronJob = await watched('held');
    const job = await jobs.createJob('held-1', cronJob);
    await jobs.startJob('held-1', ago(60));
    await jobs.beats('held', ['start']);
    await jobs.patchJob('held-1', { spec: { suspend: true } });
    const [, cancel] = await jobs.beats('held', ['start', 'log']);
    expect(cancel?.message).toBe('Job held-1 was suspended.');
    await jobs.deletePod('held-1-pod');
    await jobs.patchJob('held-1', { spec: { suspend: false } });
    await jobs.setPod('held-1-next', job, { startedAt: ago(0) });
    await jobs.beats('held', ['start', 'log', 'start']);
    await jobs.completeJob('held-1');
    await jobs.beats('held', ['start', 'log', 'start', 'success']);
  });

  it('hears of a Job that was deleted as soon as it had completed, and of none twice when its history goes', async () => {
    const cronJob = await watched('ttl');
    for (const name of ['ttl-1', 'ttl-2']) {
      await jobs.createJob(name, cronJob, { spec: { ttlSecondsAfterFinished: 0 } });
      await jobs.startJob(name, ago(3));
      await jobs.completeJob(name);
      await jobs.deleteJob(name);
    }
    await waitFor(async () => (await jobs.observations('ttl')).length >= 4, { what: 'both runs' });
    await afterAnother('ttl', cronJob);
    await jobs.deletePod('ttl-1-pod');
    await waitFor(async () => (await jobs.observations('ttl')).length >= 6, { what: 'the last run' });
    const kinds = (await jobs.observations('ttl')).map(({ kind }) => kind).sort();
    expect(kinds).toEqual(['start', 'start', 'start', 'success', 'success', 'success']);
    await waitFor(async () => (await fixture.monitor('ttl')).status?.workload?.runs?.length === 1, {
      what: 'the status keeps nothing of Jobs that are gone',
    });
  });

  it('closes the run of a Job that is deleted or replaced while it runs, which opens nothing', async () => {
    const cronJob = await watched('replaced', { maxRuntimeSeconds: 60 });
    await jobs.createJob('replaced-1', cronJob);
    await jobs.startJob('replaced-1', ago(5));
    await jobs.beats('replaced', ['start']);
    await jobs.deleteJob('replaced-1');
    const [, cancel] = await jobs.beats('replaced', ['start', 'log']);
    expect(cancel?.message).toBe('Job replaced-1 was deleted while it ran.');
    await jobs.createJob('replaced-2', cronJob);
    await jobs.startJob('replaced-2');
    await jobs.beats('replaced', ['start', 'log', 'start']);
    expect(await incidents('replaced')).toEqual([]);
  });

  it('counts a Job that was started by hand', async () => {
    const cronJob = await watched('manual');
    const metadata = { annotations: { 'cronjob.kubernetes.io/instantiate': 'manual' } };
    await jobs.createJob('by-hand', cronJob, { metadata });
    await jobs.startJob('by-hand', ago(4));
    await jobs.completeJob('by-hand');
    await jobs.beats('manual', ['start', 'success']);
  });

  it('counts the Jobs of a CronJob that was made again under its name, and ends what ran before', async () => {
    const first = await watched('again');
    await jobs.createJob('again-1', first);
    await jobs.startJob('again-1', ago(9));
    await jobs.beats('again', ['start']);
    await jobs.deleteCronJob('again');
    await fixture.monitorBecomes('again', 'WorkloadWatched', 'False', 'WorkloadNotFound');
    const second = await jobs.createCronJob('again');
    await fixture.monitorBecomes('again', 'WorkloadWatched', 'True', 'Watching');
    await waitFor(() => Date.parse(second.metadata.creationTimestamp ?? '') + 1000 < Date.now(), {
      what: 'the next second',
    });
    await jobs.deleteJob('again-1');
    await jobs.beats('again', ['start', 'log']);
    // A name that was there before is another Job.
    await jobs.createJob('again-1', second);
    await jobs.setPod('again-1-other', await jobs.startJob('again-1'), { startedAt: ago(0) });
    await jobs.completeJob('again-1');
    await jobs.beats('again', ['start', 'log', 'start', 'success']);
  });

  it('is one run for an indexed Job, whatever its pods do, and says which rule of a pod-failure policy ended it', async () => {
    const cronJob = await watched('indexed');
    const spec = { completionMode: 'Indexed', completions: 3, parallelism: 3 };
    const job = await jobs.createJob('indexed-1', cronJob, { spec });
    await jobs.startJob('indexed-1', ago(20));
    await jobs.setPod('indexed-1-b', job, { startedAt: ago(15), exitCode: 0 }, { phase: 'Succeeded' });
    await jobs.setPod('indexed-1-c', job, { startedAt: ago(15), exitCode: 42 }, { phase: 'Failed' });
    const message =
      'Container main for pod indexed-1-c failed with exit code 42 matching FailJob rule at index 0';
    await jobs.failJob('indexed-1', 'PodFailurePolicy', { message });
    const [, fail] = await jobs.beats('indexed', ['start', 'fail']);
    expect(fail).toMatchObject({
      exitStatus: 42,
      message: expect.stringContaining(`PodFailurePolicy. ${message}.`),
    });
  });

  it('counts runs of concurrent Jobs one by one', async () => {
    const cronJob = await watched('allowed');
    const before = timesBefore(Date.now());
    for (const name of ['allowed-1', 'allowed-2']) {
      await jobs.createJob(name, cronJob);
      await jobs.startJob(name, before(30));
      await waitFor(
        async () => (await jobs.observations('allowed')).length >= (name === 'allowed-1' ? 1 : 2),
        {
          what: `the start of ${name}`,
        },
      );
    }
    await jobs.completeJob('allowed-1', before(20));
    await jobs.failJob('allowed-2', 'BackoffLimitExceeded', { at: before(10) });
    const all = await jobs.beats('allowed', ['start', 'start', 'success', 'fail']);
    expect(all.map(({ durationSeconds }) => durationSeconds)).toEqual([undefined, undefined, 10, 20]);
    expect(all[2]?.runId).toBe(all[0]?.runId);
    expect(all[3]?.runId).toBe(all[1]?.runId);
  });

  it('is silent about what ended before it watched, also where it got its workloadRef later', async () => {
    const cronJob = await jobs.createCronJob('late');
    await jobs.createJob('late-1', cronJob);
    await jobs.startJob('late-1', ago(90));
    await jobs.failJob('late-1', 'BackoffLimitExceeded', { at: ago(60) });
    await fixture.createMonitor('late', disabled);
    await fixture.monitorBecomes('late', 'Ready', 'True');
    await jobs.createJob('late-2', cronJob);
    await jobs.startJob('late-2', ago(90));
    await jobs.completeJob('late-2', ago(1));
    const ref = { namespace: fixture.namespace, name: 'late' };
    const endMs = Date.now() + 1000;
    await waitFor(() => Date.now() > endMs, { what: 'the next second' });
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { workloadRef: cronJobRef('late') } });
    await fixture.monitorBecomes('late', 'WorkloadWatched', 'True');
    await afterAnother('late', cronJob);
    await jobs.beats('late', ['start', 'success']);
  });

  it('shows a beat that the API refuses, sends it no more, and goes on with the next one', async () => {
    const rule = { minimum: 1, missingPolicy: 'reject' };
    const cronJob = await watched('refused', { measurements: { rows: rule } });
    await jobs.createJob('refused-1', cronJob);
    await jobs.startJob('refused-1', ago(9));
    await jobs.completeJob('refused-1');
    const { status } = await fixture.monitorBecomes('refused', 'WorkloadWatched', 'False', 'BeatRefused');
    const said = status?.conditions?.find(({ type }) => type === 'WorkloadWatched')?.message;
    expect(said).toMatch(/^The API refused the last beat: service\.validation_failed: /);
    const event = await fixture.eventAppears('refused', 'Refused');
    const { url = '' } = (await fixture.secret('refused-beat')) ?? {};
    for (const text of [said, event.note]) expect(text).not.toContain(url.split('/').at(-1));
    await jobs.createJob('refused-2', cronJob);
    await jobs.startJob('refused-2');
    await jobs.beats('refused', ['start', 'start']);
    await fixture.monitorBecomes('refused', 'WorkloadWatched', 'True');
  });

  it('follows its publish address when that is rotated', async () => {
    const cronJob = await watched('rotated');
    await jobs.createJob('rotated-1', cronJob);
    await jobs.startJob('rotated-1');
    await jobs.beats('rotated', ['start']);
    const { status } = await fixture.monitor('rotated');
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag } = await fixture.api.expectSuccess('getMonitor', { params });
    await fixture.api.expectSuccess('rotatePublishUrl', {
      params,
      ifMatch: etag,
      body: {},
      idempotencyKey: 'rotate',
    });
    await jobs.completeJob('rotated-1');
    await jobs.beats('rotated', ['start', 'success']);
  });

  it('closes open runs when the spec names no workload any more', async () => {
    const cronJob = await watched('released');
    await jobs.createJob('released-1', cronJob);
    await jobs.startJob('released-1');
    await jobs.beats('released', ['start']);
    const ref = { namespace: fixture.namespace, name: 'released' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { workloadRef: null } });
    await jobs.completeJob('released-1');
    await jobs.beats('released', ['start', 'success']);
    await waitFor(async () => (await fixture.monitor('released')).status?.workload === undefined, {
      what: 'nothing is remembered of the workload',
    });
    const { status } = await fixture.monitor('released');
    const params = { monitorId: status?.monitorId ?? '' };
    const { body } = await fixture.api.expectSuccess('getMonitor', { params });
    expect(body.beatenBy).toBeUndefined();
    expect(body.schedule).toBeUndefined();
  });

  it('of a single Job has the beats of that Job', async () => {
    await jobs.createJob('single');
    const workloadRef = { apiVersion: 'batch/v1', kind: 'Job', name: 'single' };
    await fixture.createMonitor('single', { ...disabled, workloadRef });
    await fixture.monitorBecomes('single', 'WorkloadWatched', 'True', 'Watching');
    await jobs.startJob('single');
    await jobs.completeJob('single');
    await jobs.deleteJob('single');
    await jobs.beats('single', ['start', 'success']);
    await fixture.monitorBecomes('single', 'WorkloadWatched', 'False', 'WorkloadNotFound');
  });
});

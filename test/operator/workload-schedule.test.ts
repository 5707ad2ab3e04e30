// What a Monitor takes from its workload: schedule, time zone, suspension and grace of a CronJob, name and labels of any.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { cronJobRef, type JobFixture, jobFixture } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const DEPLOYMENTS: KubeResource<KubeObject & { spec: object }> = {
  ...{ apiVersion: 'apps/v1', kind: 'Deployment', plural: 'deployments', namespaced: true },
};

describe.skipIf(!hasCluster)('a Monitor with a workload', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
    await fixture.startOperator();
  });
  afterAll(() => fixture.close());

  const record = async (name: string) => {
    const { status } = await fixture.monitor(name);
    const params = { monitorId: status?.monitorId ?? '' };
    return (await fixture.api.expectSuccess('getMonitor', { params })).body;
  };
  const watched = async (name: string, spec: object = {}, metadata: object = {}) => {
    await jobs.createCronJob(name, spec, metadata);
    await fixture.createMonitor(name, { ...disabled, workloadRef: cronJobRef(name) });
    await fixture.monitorBecomes(name, 'Ready', 'True');
  };

  it('expects the runs of the CronJob in its time zone, and follows a change', async () => {
    const labels = { team: 'payments', 'app.kubernetes.io/name': 'zoned' };
    await watched('zoned', { schedule: '30 1 * * 1-5', timeZone: 'Europe/Berlin' }, { labels });
    const body = await record('zoned');
    expect(body).toMatchObject({
      ...{ name: 'zoned', awaitFirstBeat: false, graceSeconds: 300, labels: { team: 'payments' } },
      schedule: { cron: '30 1 * * 1-5', timeZone: 'Europe/Berlin' },
    });
    expect(body.beatenBy).toMatch(/^test\/beatkeeper@/);
    // The clock runs from the creation: a job that never starts is missed.
    expect(body.status.nextDeadlineAt).toBeDefined();
    await jobs.patchCronJob('zoned', { spec: { schedule: '@daily', timeZone: null } });
    await waitFor(async () => (await record('zoned')).schedule?.cron === '0 0 * * *', {
      what: 'the new schedule',
    });
    expect((await record('zoned')).schedule?.timeZone).toBe('Etc/UTC');
    const text = await fixture.kubectl(['get', 'mon', 'zoned', '--no-headers']);
    expect(text.stdout).toMatch(/cron 0 0 \* \* \*/);
  });

  it('pauses with the CronJob and goes on with it, and stays paused while its own spec says so', async () => {
    await watched('held');
    const lifecycleIs = (wanted: string) =>
      waitFor(async () => (await record('held')).lifecycle === wanted, { what: `held is ${wanted}` });
    const ref = { namespace: fixture.namespace, name: 'held' };
    await jobs.patchCronJob('held', { spec: { suspend: true } });
    await lifecycleIs('paused');
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { lifecycle: 'paused' } });
    await jobs.patchCronJob('held', { spec: { suspend: false } });
    await fixture.monitorBecomes('held', 'Synced', 'True');
    await jobs.patchCronJob('held', { spec: { schedule: '0 4 * * *' } });
    await waitFor(async () => (await record('held')).schedule?.cron === '0 4 * * *', {
      what: 'the schedule',
    });
    expect((await record('held')).lifecycle).toBe('paused');
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { lifecycle: null } });
    await lifecycleIs('active');
  });

  it('waits as long as the CronJob lets a Job start late', async () => {
    await watched('patient', { startingDeadlineSeconds: 600 });
    expect((await record('patient')).graceSeconds).toBe(900);
    const ref = { namespace: fixture.namespace, name: 'patient' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 1200 } });
    await waitFor(async () => (await record('patient')).graceSeconds === 1200, {
      what: 'its own grace counts',
    });
  });

  it('whose CronJob is gone stays as it is, says so, and its deadline runs on', async () => {
    await watched('gone', { schedule: '15 3 * * *' }, { labels: { team: 'a' } });
    const before = await record('gone');
    await jobs.deleteCronJob('gone');
    const { status } = await fixture.monitorBecomes('gone', 'WorkloadWatched', 'False', 'WorkloadNotFound');
    expect(status?.conditions?.find(({ type }) => type === 'WorkloadWatched')?.message).toBe(
      'There is no CronJob gone in this namespace: make it, or name another one. The monitor stays as it is, and its deadline runs on.',
    );
    await fixture.monitorBecomes('gone', 'Ready', 'True');
    const after = await record('gone');
    expect(after).toMatchObject({ schedule: before.schedule, awaitFirstBeat: false, labels: { team: 'a' } });
    expect(after.status.nextDeadlineAt).toBe(before.status.nextDeadlineAt);
    expect(after.beatenBy).toBe(before.beatenBy);
  });

  it('is taken back at once from whoever takes it from an operator that works', async () => {
    await watched('taken');
    const { monitorId, beatenBy } = await record('taken');
    const { body } = await fixture.apiFixture.owner
      .as(fixture.apiFixture.tokens.owner, fixture.namespace)
      .expectSuccess('clearMonitorBeatenBy', { params: { monitorId } });
    expect(body.beatenBy).toBeUndefined();
    await waitFor(async () => (await record('taken')).beatenBy === beatenBy, { what: 'it is taken back' });
  });

  it('says in words that it does not understand a schedule, keeps the one before, and takes an interval instead', async () => {
    await watched('every', { schedule: '0 5 * * *' });
    await jobs.patchCronJob('every', { spec: { schedule: '@every 90m' } });
    const { status } = await fixture.monitorBecomes(
      'every',
      'WorkloadWatched',
      'False',
      'ScheduleNotUnderstood',
    );
    expect(status?.conditions?.find(({ type }) => type === 'WorkloadWatched')?.message).toBe(
      'The schedule "@every 90m" of CronJob every is not taken: Must be a cron expression with five fields such as "0 2 * * *". Change it there, or set intervalSeconds in this spec.',
    );
    expect((await record('every')).schedule?.cron).toBe('0 5 * * *');
    const ref = { namespace: fixture.namespace, name: 'every' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { intervalSeconds: 5400 } });
    await fixture.monitorBecomes('every', 'WorkloadWatched', 'True');
    await waitFor(async () => (await record('every')).intervalSeconds === 5400, { what: 'the interval' });
  });

  it('of a Deployment has its name and labels, and beats by itself', async () => {
    const labels = { app: 'queue' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'a' }] } };
    await fixture.kube.client.create(DEPLOYMENTS, {
      metadata: { name: 'queue', namespace: fixture.namespace, labels: { team: 'core', tier: 'back' } },
      spec: { selector: { matchLabels: labels }, template },
    });
    const workloadRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'queue' };
    await fixture.createMonitor('worker', { ...disabled, workloadRef }, { labels: { tier: 'own' } });
    await fixture.monitorBecomes('worker', 'WorkloadWatched', 'True', 'NameAndLabels');
    const body = await record('worker');
    expect(body).toMatchObject({ name: 'queue', labels: { team: 'core', tier: 'own' } });
    expect(body.beatenBy).toBeUndefined();
  });

  it('says that nobody looks at workloads where the operator is not to', async () => {
    const other = await openOperatorFixture();
    try {
      await jobFixture(other).createCronJob('off');
      await other.createMonitor('off', { ...disabled, workloadRef: cronJobRef('off') });
      await other.startOperator({ workloads: false });
      const { status } = await other.monitorBecomes('off', 'WorkloadWatched', 'False', 'WorkloadsDisabled');
      expect(status?.workload).toBeUndefined();
      await other.monitorBecomes('off', 'Ready', 'True');
    } finally {
      await other.close();
    }
  });
});

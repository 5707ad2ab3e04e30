// CronJobs that ask for a Monitor, by their own annotation or by the label of their namespace.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster, namespaces } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ago, type JobFixture, jobFixture, WHOLE_CRON_JOBS } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const annotation = (name: string) => `beatkeeper.dev/${name}`;
const annotations = (values: Record<string, string>) => ({
  annotations: Object.fromEntries(Object.entries(values).map(([key, value]) => [annotation(key), value])),
});

describe.skipIf(!hasCluster)('a CronJob', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
    await fixture.startOperator({ watchNamespaces: [] });
  });
  afterAll(async () => {
    await setLabel(null);
    await fixture.close();
  });

  const find = (name: string) => fixture.kube.client.find(MONITORS, { namespace: fixture.namespace, name });
  const annotate = (name: string, values: Record<string, string | null>) =>
    jobs.patchCronJob(name, {
      metadata: {
        annotations: Object.fromEntries(
          Object.entries(values).map(([key, value]) => [annotation(key), value]),
        ),
      },
    });
  const setLabel = (value: string | null) =>
    fixture.kube.client.mergePatch(
      namespaces,
      { name: fixture.namespace },
      { metadata: { labels: { [annotation('monitor-cronjobs')]: value } } },
    );
  const appears = (name: string) => waitFor(() => find(name), { what: `the Monitor ${name}` });
  const disappears = (name: string) =>
    waitFor(async () => (await find(name)) === undefined, { what: `no Monitor ${name}` });
  const lifecycleOf = async (monitorId: string) =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body.lifecycle;

  it('with the annotation has a Monitor that beats, and without it none', async () => {
    const cronJob = await jobs.createCronJob('noted', {}, annotations({ monitor: 'true' }));
    const made = await appears('noted');
    expect(made.metadata.ownerReferences).toMatchObject([
      { kind: 'CronJob', name: 'noted', uid: cronJob.metadata.uid, controller: true },
    ]);
    expect(made.spec).toEqual({
      workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name: 'noted' },
      deletionPolicy: 'Archive',
    });
    await fixture.eventAppears('noted', 'Created');
    await jobs.createJob('noted-1', cronJob);
    await jobs.startJob('noted-1', ago(5));
    await jobs.completeJob('noted-1');
    await jobs.beats('noted', ['start', 'success']);
    const { status } = await fixture.monitor('noted');
    await annotate('noted', { monitor: null });
    await disappears('noted');
    expect(await lifecycleOf(status?.monitorId ?? '')).toBe('archived');
  });

  it('gives its annotations to the Monitor, and puts back what is changed there by hand', async () => {
    await fixture.createCallback('oncall');
    const values = {
      monitor: 'true',
      'grace-seconds': '900',
      callback: 'oncall',
      'deletion-policy': 'Delete',
    };
    await jobs.createCronJob('detailed', {}, annotations(values));
    const wanted = {
      graceSeconds: 900,
      callback: { kind: 'named', callbackRef: { name: 'oncall' } },
      deletionPolicy: 'Delete',
    };
    expect((await appears('detailed')).spec).toMatchObject(wanted);
    await fixture.monitorBecomes('detailed', 'Ready', 'True');
    const { status } = await fixture.monitor('detailed');
    const ref = { namespace: fixture.namespace, name: 'detailed' };
    const byHand = {
      graceSeconds: 60,
      callback: { kind: 'disabled', callbackRef: null },
      description: 'Mine.',
    };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: byHand });
    await waitFor(async () => (await find('detailed'))?.spec.graceSeconds === 900, {
      what: 'it is put back',
    });
    expect((await find('detailed'))?.spec).toMatchObject({ ...wanted, description: 'Mine.' });
    await annotate('detailed', { 'grace-seconds': null, callback: null });
    await waitFor(async () => (await find('detailed'))?.spec.graceSeconds === undefined, {
      what: 'it has the default',
    });
    expect((await find('detailed'))?.spec.callback).toBeUndefined();
    await annotate('detailed', { monitor: 'false' });
    await disappears('detailed');
    const gone = await fixture.api.call('getMonitor', { params: { monitorId: status?.monitorId ?? '' } });
    expect(gone.status).toBe(404);
  });

  it('with values that mean nothing has a Warning, and its Monitor the defaults', async () => {
    const values = {
      monitor: 'true',
      'grace-seconds': '5 minutes',
      callback: 'On Call',
      'deletion-policy': 'keep',
    };
    await jobs.createCronJob('sloppy', {}, annotations(values));
    expect((await appears('sloppy')).spec).toEqual({
      workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name: 'sloppy' },
      deletionPolicy: 'Archive',
    });
    const event = await fixture.eventAppears('sloppy', 'Refused');
    expect(event).toMatchObject({ type: 'Warning', regarding: { kind: 'CronJob' } });
    for (const text of [
      'grace-seconds is "5 minutes", so its default counts: set it to whole seconds from 60 to 31536000.',
      'callback is "On Call", so its default counts: set it to the name of a Callback of this namespace.',
      'deletion-policy is "keep", so its default counts: set it to Archive, Delete, Orphan.',
    ])
      expect(event.note).toContain(text);
  });

  it('leaves a Monitor of somebody else alone, and makes its own when that is gone', async () => {
    await fixture.createMonitor('taken', { intervalSeconds: 300, callback: { kind: 'disabled' } });
    await jobs.createCronJob('taken', {}, annotations({ monitor: 'true' }));
    const event = await fixture.eventAppears('taken', 'Refused');
    expect(event.note).toMatch(/^There is a Monitor taken that the operator did not make/);
    expect((await find('taken'))?.spec.intervalSeconds).toBe(300);
    await annotate('taken', { monitor: null });
    await annotate('taken', { monitor: 'true' });
    await fixture.kube.client.delete(MONITORS, { namespace: fixture.namespace, name: 'taken' });
    await waitFor(async () => (await find('taken'))?.spec.workloadRef !== undefined, {
      what: 'its own Monitor',
    });
  });

  it('that is deleted takes its Monitor along, and gets the same monitor back when it is made again', async () => {
    await jobs.createCronJob('short', {}, annotations({ monitor: 'true' }));
    await appears('short');
    await fixture.monitorBecomes('short', 'Synced', 'True');
    const { status } = await fixture.monitor('short');
    await jobs.deleteCronJob('short');
    await disappears('short');
    expect(await lifecycleOf(status?.monitorId ?? '')).toBe('archived');
    await jobs.createCronJob('short', {}, annotations({ monitor: 'true' }));
    await waitFor(async () => (await find('short'))?.status?.monitorId === status?.monitorId, {
      what: 'its monitor',
    });
    expect(await lifecycleOf(status?.monitorId ?? '')).toBe('active');
  });

  it('of a namespace with the label has a Monitor, but for one that says no', async () => {
    await jobs.createCronJob('all-1');
    await jobs.createCronJob('all-2', {}, annotations({ monitor: 'false' }));
    await setLabel('true');
    await appears('all-1');
    await jobs.createCronJob('all-3');
    await appears('all-3');
    expect(await find('all-2')).toBeUndefined();
    await setLabel(null);
    await disappears('all-1');
    await disappears('all-3');
    expect(
      await fixture.kube.client.find(WHOLE_CRON_JOBS, { namespace: fixture.namespace, name: 'all-1' }),
    ).toBeDefined();
  });
});

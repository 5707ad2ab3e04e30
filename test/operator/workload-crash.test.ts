// Whatever an operator leaves of runs and of annotated CronJobs when it is killed between two steps, the next one completes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { Crash, runUntilDead } from './crashing-clients.ts';
import { cronJobRef, type JobFixture, jobFixture, timesBefore } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

/** What a beat alone changes is written at once: here it says what the next operator knows. */
const SOON = { lastBeatPeriodMs: 1 };

describe.skipIf(!hasCluster)('an operator that is killed', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
  });
  afterAll(() => fixture.close());

  const find = (name: string) => fixture.kube.client.find(MONITORS, { namespace: fixture.namespace, name });
  const remove = async (name: string) => {
    const ref = { namespace: fixture.namespace, name };
    await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { finalizers: null } });
    await fixture.kube.client.delete(MONITORS, ref);
  };

  it.each(['before', 'after'] as const)(
    'has each run told once by the next operator when it dies %s any write',
    async (mode) => {
      let isDead = true;
      let count = 0;
      for (; isDead; count += 1) {
        const name = `run-${mode}-${count}`;
        const cronJob = await jobs.createCronJob(name);
        await fixture.createMonitor(name, { callback: { kind: 'disabled' }, workloadRef: cronJobRef(name) });
        const before = timesBefore(Date.now());
        await jobs.createJob(`${name}-1`, cronJob);
        await jobs.startJob(`${name}-1`, before(-1));
        await jobs.completeJob(`${name}-1`, before(-2));
        await jobs.createJob(`${name}-2`, cronJob);
        await jobs.startJob(`${name}-2`, before(-3));
        await jobs.failJob(`${name}-2`, 'BackoffLimitExceeded', { at: before(-4) });
        const isTold = async () => {
          const { status } = await fixture.monitor(name);
          return status?.workload?.runs?.filter(({ ended }) => ended !== undefined).length === 2;
        };
        const crash = new Crash(count + 1, mode);
        isDead = await runUntilDead(fixture, crash, isTold, SOON);
        const next = await fixture.startOperator(SOON);
        await waitFor(isTold, { what: `${name} is told after ${crash.writes.at(-1)}` });
        await jobs.beats(name, ['start', 'success', 'start', 'fail']);
        const { status } = await fixture.monitor(name);
        const params = { monitorId: status?.monitorId ?? '' };
        const { body } = await fixture.api.expectSuccess('getMonitor', { params });
        expect(body.beatenBy).toMatch(/^test\/beatkeeper@/);
        await next.stop();
        await remove(name);
        await jobs.deleteJob(`${name}-1`);
        await jobs.deleteJob(`${name}-2`);
      }
      expect(count).toBeGreaterThan(8);
    },
    600_000,
  );

  it.each(['before', 'after'] as const)(
    'has the Monitor of an annotated CronJob made and deleted by the next operator when it dies %s any write',
    async (mode) => {
      let isDead = true;
      let count = 0;
      const annotation = 'beatkeeper.dev/monitor';
      for (; isDead; count += 1) {
        const name = `noted-${mode}-${count}`;
        await jobs.createCronJob(name, {}, { annotations: { [annotation]: 'true' } });
        const isMade = async () => {
          const synced = (await find(name))?.status?.conditions?.find(({ type }) => type === 'Synced');
          return synced?.status === 'True';
        };
        isDead = await runUntilDead(fixture, new Crash(count + 1, mode), isMade, SOON);
        const next = await fixture.startOperator();
        await waitFor(isMade, { what: `${name} is made` });
        const { monitorId = '' } = (await find(name))?.status ?? {};
        await next.stop();
        await jobs.patchCronJob(name, { metadata: { annotations: { [annotation]: null } } });
        const isGone = async () => (await find(name)) === undefined;
        const isDeadAgain = await runUntilDead(fixture, new Crash(count + 1, mode), isGone, SOON);
        isDead ||= isDeadAgain;
        const last = await fixture.startOperator();
        await waitFor(isGone, { what: `${name} is gone` });
        await last.stop();
        const { body } = await fixture.api.expectSuccess('getMonitor', { params: { monitorId } });
        expect(body.lifecycle).toBe('archived');
        await jobs.deleteCronJob(name);
      }
      expect(count).toBeGreaterThan(4);
    },
    600_000,
  );
});

// What a CronJob gives to its Monitor, and which Monitor its annotations ask for.
import { describe, expect, it } from 'vitest';
import { annotatedSpec, isAnnotated } from '../../../src/operator/workloads/annotated-spec.ts';
import { scheduleOf, type Workload, withWorkload } from '../../../src/operator/workloads/workload-of.ts';
import { cronJob } from './job-views.ts';

const ref = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'backup' } as const;
const workload = (more: Parameters<typeof cronJob>[0] = {}): Workload => {
  const object = cronJob(more);
  return { ref, object, cronJob: object, isEnabled: true };
};
const base = { workloadRef: ref, deletionPolicy: 'Archive' } as const;

describe('the schedule of a CronJob', () => {
  it.each([
    [{ schedule: '*/5 * * * *' }, '*/5 * * * *', 'Etc/UTC'],
    [{ schedule: ' 0  2 * * MON-FRI ', timeZone: 'Asia/Tokyo' }, '0 2 * * MON-FRI', 'Asia/Tokyo'],
    [{ schedule: 'CRON_TZ=Europe/Berlin 0 2 * * *' }, '0 2 * * *', 'Europe/Berlin'],
    [{ schedule: 'TZ=Europe/Paris @weekly' }, '0 0 * * 0', 'Europe/Paris'],
    [{ schedule: '0 2 ? * ?' }, '0 2 * * *', 'Etc/UTC'],
    [{ schedule: '@hourly' }, '0 * * * *', 'Etc/UTC'],
  ])('%j is taken as the API writes it', (spec, cron, timeZone) => {
    expect(scheduleOf(cronJob({ spec }))).toEqual({ cron, timeZone });
  });

  it.each([
    [{ schedule: '@every 1h' }, 'The schedule "@every 1h" of CronJob backup is not taken: Must be a cron'],
    [{ schedule: '0 2 30 2 *' }, 'this day does not exist'],
    [
      { schedule: '0 2 * * *', timeZone: 'Mars/Base' },
      'The time zone Mars/Base of CronJob backup is not taken',
    ],
  ])('%j is refused in words', (spec, words) => {
    expect(scheduleOf(cronJob({ spec }))).toEqual({ fault: expect.stringContaining(words) });
  });
});

describe('the spec of a Monitor with a CronJob', () => {
  it('has what the CronJob says, under what it says itself', () => {
    const spec = { startingDeadlineSeconds: 200, suspend: true };
    expect(withWorkload(base, workload({ spec }), []).spec).toEqual({
      ...base,
      ...{ awaitFirstBeat: false, graceSeconds: 500, lifecycle: 'paused' },
      schedule: { cron: '0 2 * * *', timeZone: 'Etc/UTC' },
    });
    const own = {
      ...base,
      awaitFirstBeat: true,
      graceSeconds: 60,
      intervalSeconds: 300,
      lifecycle: 'archived',
    } as const;
    expect(withWorkload(own, workload({ spec }), [])).toEqual({ spec: own, kept: [] });
  });

  it('keeps what an earlier pass has set while the CronJob is gone', () => {
    const owned = ['description', 'labels.team', 'lifecycle', 'schedule', 'schedule.timeZone'];
    const gone: Workload = { ref, object: undefined, isEnabled: true };
    expect(withWorkload(base, gone, owned)).toEqual({ spec: base, kept: owned.slice(1) });
    expect(withWorkload(base, { ...gone, isEnabled: false }, owned)).toEqual({ spec: base, kept: [] });
  });
});

describe('the annotations of a CronJob', () => {
  const noted = (annotations: Record<string, string>) =>
    cronJob({
      metadata: {
        annotations: Object.fromEntries(
          Object.entries(annotations).map(([name, value]) => [`beatkeeper.dev/${name}`, value]),
        ),
      },
    });
  const labelled = { metadata: { name: 'shop', labels: { 'beatkeeper.dev/monitor-cronjobs': 'true' } } };

  it('decide before the label of the namespace', () => {
    expect([undefined, labelled].map((place) => isAnnotated(noted({}), place))).toEqual([false, true]);
    expect([undefined, labelled].map((place) => isAnnotated(noted({ monitor: 'true' }), place))).toEqual([
      true,
      true,
    ]);
    for (const monitor of ['false', 'no'])
      expect([undefined, labelled].map((place) => isAnnotated(noted({ monitor }), place))).toEqual([
        false,
        false,
      ]);
  });

  it.each(['', '59', '1e3', '31536001', '99999999999'])(
    'a grace of %j is a fault, and the default counts',
    (value) => {
      const { spec, faults } = annotatedSpec(noted({ monitor: 'true', 'grace-seconds': value }));
      expect(spec.graceSeconds).toBeUndefined();
      expect(faults).toHaveLength(1);
    },
  );
});

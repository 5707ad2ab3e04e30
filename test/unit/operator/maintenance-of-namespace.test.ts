// The maintenance schedules of a namespace and of its Monitors.
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import { wantedMaintenance } from '../../../src/operator/kinds/monitor/maintenance-of-namespace.ts';
import { planMonitor } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { desired, record } from './resources.ts';

const nightly = { cron: '0 2 * * *', timeZone: 'UTC', durationSeconds: 3600 };
const weekly = { cron: '0 4 * * 6', timeZone: 'Europe/Berlin', durationSeconds: 7200, reason: 'Patch day' };

const namespaceWith = (text?: string): KubeObject => ({
  metadata: {
    name: 'payments',
    annotations: text === undefined ? {} : { 'beatkeeper.dev/maintenance': text },
  },
});
const has = { maintenanceSchedules: [nightly] };
const planIn = (namespace: KubeObject | undefined, spec: object = {}, owned = ['maintenanceSchedules']) => {
  const goal = desired(spec, {}, undefined, [], namespace);
  const facts = { record: record(has), owned, isTakenOver: false, isChanged: true };
  return { steps: planMonitor(goal, facts).steps, ownedFields: goal.ownedFields };
};

describe('the annotation of a namespace', () => {
  it('adds its schedules to those of the Monitor, in UTC where it names no zone', () => {
    const { timeZone: _, ...inUtc } = nightly;
    const { steps, ownedFields } = planIn(namespaceWith(JSON.stringify([inUtc])), {
      maintenanceSchedules: [weekly],
    });
    expect(steps).toEqual([{ call: 'patch', patch: { maintenanceSchedules: [weekly, nightly] } }]);
    expect(ownedFields).toEqual(['maintenanceSchedules']);
  });

  it('that goes takes its schedules along, and an empty list is one', () => {
    expect(planIn(namespaceWith()).steps).toEqual([{ call: 'patch', patch: { maintenanceSchedules: null } }]);
    expect(planIn(namespaceWith('[]')).steps).toEqual([
      { call: 'patch', patch: { maintenanceSchedules: [] } },
    ]);
    // Nobody may read it: it says nothing.
    expect(planIn(undefined, {}, []).steps).toEqual([]);
  });

  it.each([
    ['nightly', 'it is not JSON'],
    ['{"cron": "0 2 * * *"}', 'it is not a list'],
    [' '.repeat(16_385), 'it has more than 16384 characters'],
    ['[{"cron": "0 2 * * *"}]', 'entry 1, durationSeconds: This is required: state it.'],
    ['[{"cron": "61 2 * * *", "durationSeconds": 60}]', 'entry 1, cron: Must be a cron expression'],
    ['[{"cron": "0 2 * * *", "durationSeconds": 60, "note": "x"}]', 'entry 1, note: '],
    [
      JSON.stringify([{ ...nightly, durationSeconds: 86_400 }]),
      'entry 1, durationSeconds: Of this schedule more than 16 windows',
    ],
  ])('that says %s is a fault, and the monitor keeps what it has', (text, why) => {
    const wanted = wantedMaintenance([weekly], namespaceWith(text));
    expect(wanted).toEqual({ fault: expect.stringContaining(why) });
    expect(wanted).toEqual({
      fault: expect.stringMatching(
        /^The annotation beatkeeper\.dev\/maintenance of the namespace cannot be read: .* Until then the monitor keeps the maintenance schedules that it has\.$/,
      ),
    });
    expect(planIn(namespaceWith(text)).steps).toEqual([]);
  });

  it('that makes more than eight together with those of the Monitor is a fault', () => {
    const wanted = wantedMaintenance(
      Array(5).fill(nightly),
      namespaceWith(JSON.stringify(Array(4).fill(nightly))),
    );
    expect(wanted).toEqual({
      fault:
        'The Monitor has 5 of its own and 4 of its namespace: a monitor has at most 8. Until then the monitor keeps the maintenance schedules that it has.',
    });
  });
});

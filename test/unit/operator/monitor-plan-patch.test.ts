// Which patch brings a monitor's configuration to what its object wants.
import { describe, expect, it } from 'vitest';
import { measurementRuleWithDefaults } from '../../../src/contract/resources/measurement-rule-patch.ts';
import type { Monitor } from '../../../src/contract/resources/monitor.ts';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { splitPatch } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { desired, plan } from './resources.ts';

const patchOf = (spec: object, has: Partial<Monitor> = {}, owned: string[] = []) => {
  const { steps, dependsOn } = plan(spec, has, { owned });
  const patches = steps.flatMap((step) => (step.call === 'patch' ? [step.patch] : []));
  return patches[0] ?? (dependsOn === undefined ? undefined : { dependsOn });
};
const nightly = { cron: '0 2 * * *', durationSeconds: 3600 };
const rule = (fields: object) => measurementRuleWithDefaults(fields as MeasurementRule);

describe('the patch of a configuration', () => {
  it.each<[string, object, Partial<Monitor>, string[], object | undefined]>([
    ['no fields', {}, { graceSeconds: 999, description: 'theirs', name: 'theirs' }, [], undefined],
    ['a field that differs', { graceSeconds: 120 }, {}, [], { graceSeconds: 120 }],
    ['a field that is equal', { graceSeconds: 300, recoveryBeats: 1 }, {}, [], undefined],
    ['a field that left the spec', {}, { graceSeconds: 120 }, ['graceSeconds'], { graceSeconds: null }],
    [
      'a field that left the spec and has its default',
      {},
      {},
      ['graceSeconds', 'awaitFirstBeat', 'maxRuntimeSeconds'],
      undefined,
    ],
    [
      'an optional field that left the spec',
      {},
      { maxRuntimeSeconds: 5 },
      ['maxRuntimeSeconds'],
      { maxRuntimeSeconds: null },
    ],
    ['a name that left the spec', {}, { name: 'Other' }, ['name'], { name: 'backup' }],
    [
      'a text with a last line break',
      { description: 'two\nlines\n' },
      { description: 'two\nlines' },
      [],
      undefined,
    ],
    [
      'blanks of every kind, and a zero below zero',
      { name: 'x\u00a0', measurements: { rows: { minimum: -0, unit: 'ms\u2003' } } },
      { name: 'x', measurements: { rows: rule({ minimum: 0, unit: 'ms' }) } },
      [],
      undefined,
    ],
    ['an empty description', { description: '' }, {}, [], undefined],
    [
      'a schedule for an interval',
      { schedule: { cron: '0 2 * * *' } },
      { intervalSeconds: 60 },
      ['intervalSeconds'],
      {
        schedule: { cron: '0 2 * * *' },
        intervalSeconds: null,
      },
    ],
    [
      'an interval for a schedule',
      { intervalSeconds: 60 },
      { schedule: { cron: '0 2 * * *', timeZone: 'UTC' } },
      [],
      {
        intervalSeconds: 60,
        schedule: null,
      },
    ],
    [
      'a schedule that left the spec',
      {},
      { schedule: { cron: '0 2 * * *', timeZone: 'UTC' } },
      ['schedule'],
      { schedule: null },
    ],
    [
      'a time zone left alone',
      { schedule: { cron: '0 2 * * *' } },
      { schedule: { cron: '0 2 * * *', timeZone: 'Europe/Berlin' } },
      [],
      undefined,
    ],
    [
      'a time zone that left the spec',
      { schedule: { cron: '0 2 * * *' } },
      { schedule: { cron: '0 2 * * *', timeZone: 'Europe/Berlin' } },
      ['schedule.timeZone'],
      {
        schedule: { cron: '0 2 * * *', timeZone: 'UTC' },
      },
    ],
    [
      'labels by key',
      { labels: { a: '1', b: '2' } },
      { labels: { a: '1', b: 'x', theirs: 'y', ours: 'z' } },
      ['labels.ours', 'labels.a'],
      {
        labels: { b: '2', ours: null },
      },
    ],
    [
      'a measurement by field',
      { measurements: { rows: { minimum: 1 } } },
      { measurements: { rows: rule({ minimum: 2, maximum: 9 }) } },
      [],
      {
        measurements: { rows: { minimum: 1 } },
      },
    ],
    [
      'a field of a measurement that left the spec',
      { measurements: { rows: { minimum: 1 } } },
      { measurements: { rows: rule({ minimum: 1, maximum: 9 }) } },
      ['measurements.rows', 'measurements.rows.maximum'],
      { measurements: { rows: { maximum: null } } },
    ],
    [
      'a measurement that left the spec',
      {},
      { measurements: { rows: rule({ minimum: 1 }) } },
      ['measurements.rows', 'measurements.rows.minimum'],
      {
        measurements: { rows: null },
      },
    ],
    [
      'a measurement of others',
      {},
      { measurements: { theirs: rule({ minimum: 1 }) } },
      ['measurements.rows'],
      undefined,
    ],
    [
      'maintenance schedules that differ',
      { maintenanceSchedules: [{ ...nightly, timeZone: 'Europe/Berlin' }] },
      { maintenanceSchedules: [{ ...nightly, timeZone: 'UTC' }] },
      [],
      { maintenanceSchedules: [{ ...nightly, timeZone: 'Europe/Berlin' }] },
    ],
    [
      'maintenance schedules that are equal',
      { maintenanceSchedules: [nightly] },
      { maintenanceSchedules: [{ ...nightly, timeZone: 'UTC', reason: undefined }] },
      [],
      undefined,
    ],
    [
      'maintenance schedules that left the spec',
      {},
      { maintenanceSchedules: [{ ...nightly, timeZone: 'UTC' }] },
      ['maintenanceSchedules'],
      { maintenanceSchedules: null },
    ],
    [
      'maintenance schedules of others',
      {},
      { maintenanceSchedules: [{ ...nightly, timeZone: 'UTC' }] },
      [],
      undefined,
    ],
    ['dependencies that left the spec', {}, { dependsOn: ['mon_2'] }, ['dependsOn'], { dependsOn: null }],
    ['dependencies of others', {}, { dependsOn: ['mon_2'] }, [], undefined],
    ['a measurement without rules', { measurements: { rows: {} } }, {}, [], { measurements: { rows: {} } }],
    [
      'a disabled rule',
      { measurements: { rows: { minimum: 1, maximum: 2, disabledRules: ['maximum'] } } },
      {
        measurements: { rows: rule({ minimum: 1, maximum: 5 }) },
      },
      [],
      { measurements: { rows: { maximum: null } } },
    ],
    [
      'a ratio as a whole',
      { measurements: { rows: { ratio: { denominator: 'all', maximum: 1 } } } },
      {
        measurements: { rows: rule({ ratio: { denominator: 'all', minimum: 0, maximum: 1 } }) },
      },
      [],
      {
        measurements: { rows: { ratio: { denominator: 'all', minimum: null, maximum: 1 } } },
      },
    ],
  ])('the patch of a monitor for a spec with: %s', (_name, spec, has, owned, expected) => {
    expect(patchOf({ labels: {}, ...spec }, has, owned)).toEqual(expected);
  });

  it('a monitor takes the labels of its object, without those of Kubernetes', () => {
    const labels = {
      team: 'a',
      'app.kubernetes.io/name': 'x',
      'kubernetes.io/os': 'y',
      'example.com/z': '1',
    };
    expect(desired({}, { labels }).labels).toEqual({ team: 'a', 'example.com/z': '1' });
    expect(desired({ labels: { own: '1' } }, { labels }).labels).toEqual({ own: '1' });
  });

  it('a patch whose body would be too long is split and loses nothing', () => {
    const measurements = Object.fromEntries(
      Array.from({ length: 64 }, (_, i) => [`m${i}`, { unit: 'x'.repeat(400) }]),
    );
    const parts = splitPatch({ graceSeconds: 60, measurements });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) expect(JSON.stringify({ patch: part }).length).toBeLessThan(16_384);
    expect(Object.assign({}, ...parts.map((part) => part.measurements))).toEqual(measurements);
  });
});

// Which calls bring a monitor to what its object wants.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  measurementRuleWithDefaults,
  type StoredMeasurementRule,
} from '../../../src/contract/measurement-rule-patch.ts';
import { type Monitor, PUBLISHED_LIMITS, updateMonitorBody } from '../../../src/contract/monitor.ts';
import { applyMonitorPatch, type MonitorConfiguration } from '../../../src/contract/monitor-patch.ts';
import {
  type MonitorPlanFacts,
  type MonitorStep,
  planMonitor,
  splitPatch,
} from '../../../src/operator/translate/monitor-plan.ts';
import { ownedMonitorFields } from '../../../src/operator/translate/owned-fields.ts';
import { createMonitorBodyOf } from '../../../src/operator/translate/wanted-monitor.ts';
import { liveStatus, NOW, record, wanted } from './resources.ts';

function plan(spec: object, has: Partial<Monitor> = {}, facts: Partial<MonitorPlanFacts> = {}) {
  const given = { record: record(has), owned: [], isTakenOver: false, isChanged: true, nowMs: NOW };
  return planMonitor(wanted(spec), { ...given, ...facts });
}
const patchOf = (spec: object, has: Partial<Monitor> = {}, owned: string[] = []) => {
  const { steps } = plan(spec, has, { owned });
  return steps.flatMap((step) => (step.call === 'patch' ? [step.patch] : []))[0];
};
const at = (hours: number) => new Date(NOW + hours * 3_600_000).toISOString();
const rule = (fields: object) => measurementRuleWithDefaults(fields as StoredMeasurementRule);

describe('the patch of a configuration', () => {
  it.each<[string, object, Partial<Monitor>, string[], object | undefined]>([
    [
      'nothing said, nothing done',
      {},
      { graceSeconds: 999, description: 'theirs', name: 'theirs' },
      [],
      undefined,
    ],
    ['a field that differs', { graceSeconds: 120 }, {}, [], { graceSeconds: 120 }],
    ['a field that is right', { graceSeconds: 300, recoveryBeats: 1 }, {}, [], undefined],
    ['a field given back', {}, { graceSeconds: 120 }, ['graceSeconds'], { graceSeconds: null }],
    [
      'a field given back that has its default',
      {},
      {},
      ['graceSeconds', 'awaitFirstBeat', 'maxRuntimeSeconds'],
      undefined,
    ],
    [
      'an optional field given back',
      {},
      { maxRuntimeSeconds: 5 },
      ['maxRuntimeSeconds'],
      { maxRuntimeSeconds: null },
    ],
    ['a name given back', {}, { name: 'Other' }, ['name'], { name: 'backup' }],
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
      'a schedule given back',
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
      'a time zone given back',
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
      'a field of a measurement given back',
      { measurements: { rows: { minimum: 1 } } },
      { measurements: { rows: rule({ minimum: 1, maximum: 9 }) } },
      ['measurements.rows', 'measurements.rows.maximum'],
      { measurements: { rows: { maximum: null } } },
    ],
    [
      'a measurement given back',
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
  ])('%s', (_name, spec, has, owned, expected) => {
    expect(patchOf({ labels: {}, ...spec }, has, owned)).toEqual(expected);
  });

  it('takes labels of the object, but those of Kubernetes itself', () => {
    const labels = {
      team: 'a',
      'app.kubernetes.io/name': 'x',
      'kubernetes.io/os': 'y',
      'example.com/z': '1',
    };
    expect(wanted({}, { labels }).labels).toEqual({ team: 'a', 'example.com/z': '1' });
    expect(wanted({ labels: { own: '1' } }, { labels }).labels).toEqual({ own: '1' });
  });

  it('is split where a body would be too long, and loses nothing', () => {
    const measurements = Object.fromEntries(
      Array.from({ length: 64 }, (_, i) => [`m${i}`, { unit: 'x'.repeat(400) }]),
    );
    const parts = splitPatch({ graceSeconds: 60, measurements });
    expect(parts.length).toBeGreaterThan(1);
    for (const part of parts) expect(JSON.stringify({ patch: part }).length).toBeLessThan(16_384);
    expect(Object.assign({}, ...parts.map((part) => part.measurements))).toEqual(measurements);
  });
});

describe('the binding', () => {
  it.each<[string, object, Monitor['callback'], string[], object | undefined]>([
    ['nothing said', {}, { kind: 'disabled' }, [], undefined],
    ['given back', {}, { kind: 'disabled' }, ['callback'], { kind: 'organization_default' }],
    [
      'an alias',
      { kind: 'named', alias: 'a' },
      { kind: 'organization_default' },
      [],
      { kind: 'named', alias: 'a' },
    ],
    ['the same alias', { kind: 'named', alias: 'a' }, { kind: 'named', alias: 'a' }, [], undefined],
    [
      'another address',
      { kind: 'inline', url: 'https://b' },
      { kind: 'inline', url: 'https://a' },
      [],
      { kind: 'inline', url: 'https://b' },
    ],
    [
      'a Callback that is not there yet',
      { kind: 'named', callbackRef: { name: 'on.call' } },
      { kind: 'disabled' },
      [],
      { kind: 'named', alias: 'on-call' },
    ],
  ])('%s', (_name, callback, has, owned, expected) => {
    const spec = Object.keys(callback).length === 0 ? {} : { callback };
    const { steps } = plan(spec, { callback: has }, { owned });
    expect(steps.flatMap((step) => (step.call === 'binding' ? [step.binding] : []))[0]).toEqual(expected);
  });

  it('is to the alias that the Callback has', () => {
    expect(
      wanted({ callback: { kind: 'named', callbackRef: { name: 'oncall' } } }, {}, 'the-alias').binding,
    ).toEqual({
      kind: 'named',
      alias: 'the-alias',
    });
  });
});

describe('the lifecycle', () => {
  const actions = (spec: object, has: Partial<Monitor>, facts: Partial<MonitorPlanFacts> = {}) =>
    plan(spec, has, facts).steps.flatMap((step) => (step.call === 'lifecycle' ? [step.body.action] : []));

  it.each<[Monitor['lifecycle'], Monitor['lifecycle'], string[]]>([
    ['active', 'active', []],
    ['active', 'paused', ['pause']],
    ['active', 'archived', ['archive']],
    ['paused', 'active', ['resume']],
    ['paused', 'paused', []],
    ['paused', 'archived', ['archive']],
    ['archived', 'active', ['restore']],
    ['archived', 'paused', ['restore', 'pause']],
    ['archived', 'archived', []],
  ])('%s to %s', (lifecycle, target, expected) => {
    expect(actions({ lifecycle: target }, { lifecycle })).toEqual(expected);
  });

  it('is left alone where the spec says nothing, given back where it did, and woken at a takeover', () => {
    expect(actions({}, { lifecycle: 'paused' })).toEqual([]);
    expect(actions({}, { lifecycle: 'paused' }, { owned: ['lifecycle'] })).toEqual(['resume']);
    expect(actions({}, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual(['restore']);
    expect(actions({}, { lifecycle: 'paused' }, { isTakenOver: true })).toEqual([]);
    expect(actions({ lifecycle: 'archived' }, { lifecycle: 'archived' }, { isTakenOver: true })).toEqual([]);
  });

  it('stops the clock before anything else, and starts it after everything', () => {
    const calls = (spec: object, has: Partial<Monitor>) => plan(spec, has).steps.map(({ call }) => call);
    expect(calls({ lifecycle: 'paused', graceSeconds: 60 }, {})).toEqual(['lifecycle', 'patch']);
    expect(calls({ lifecycle: 'active', graceSeconds: 60 }, { lifecycle: 'paused' })).toEqual([
      'patch',
      'lifecycle',
    ]);
  });

  const running = { startsAt: at(-1), endsAt: at(1), reason: 'move' };
  const withWindow = (maintenance?: Monitor['status']['maintenance']) => ({
    status: liveStatus({ maintenance }),
  });
  it.each<[string, object, Partial<Monitor>, Partial<MonitorPlanFacts>, string[]]>([
    ['a window', { maintenance: running }, {}, {}, ['enter_maintenance']],
    [
      'the same window',
      { maintenance: running },
      withWindow({ ...running, startsAt: running.startsAt.replace('Z', '+00:00') }),
      {},
      [],
    ],
    [
      'another window',
      { maintenance: running },
      withWindow({ ...running, endsAt: at(2) }),
      {},
      ['enter_maintenance'],
    ],
    ['one that is over', { maintenance: { startsAt: at(-2), endsAt: at(-1) } }, {}, {}, []],
    ['one that was taken out', {}, withWindow(running), { owned: ['maintenance'] }, ['exit_maintenance']],
    ['one of others', {}, withWindow(running), {}, []],
    [
      'one of others after ours ran out',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: false },
      [],
    ],
    [
      'one that was replaced by one that is over',
      { maintenance: { startsAt: at(-2), endsAt: at(-1) } },
      withWindow(running),
      { owned: ['maintenance'], isChanged: true },
      ['exit_maintenance'],
    ],
    ['one for a paused monitor', { maintenance: running }, { lifecycle: 'paused' }, {}, []],
    [
      'one for a monitor that wakes',
      { maintenance: running, lifecycle: 'active' },
      { lifecycle: 'paused' },
      {},
      ['resume', 'enter_maintenance'],
    ],
  ])('%s', (_name, spec, has, facts, expected) => {
    expect(actions(spec, has, facts)).toEqual(expected);
  });
});

const patchBody = updateMonitorBody(PUBLISHED_LIMITS);

/** What the API makes of a plan, by the contract's own merge. */
function apply(has: Monitor, steps: readonly MonitorStep[]): Monitor {
  let current = has;
  for (const step of steps) current = applyStep(current, step);
  return current;
}

function applyStep(current: Monitor, step: MonitorStep): Monitor {
  if (step.call === 'binding') return { ...current, callback: step.binding };
  if (step.call === 'lifecycle') {
    return { ...current, lifecycle: LIFECYCLES[step.body.action] ?? current.lifecycle };
  }
  const { patch } = patchBody.parse({ patch: step.patch });
  const result = applyMonitorPatch(stored(current), patch, PUBLISHED_LIMITS);
  if ('fieldErrors' in result) throw new Error(JSON.stringify(result.fieldErrors));
  return present(current, result.configuration);
}

const LIFECYCLES: Record<string, Monitor['lifecycle']> = {
  pause: 'paused',
  resume: 'active',
  archive: 'archived',
  restore: 'active',
};

function stored(monitor: Monitor): MonitorConfiguration {
  const { name, description, labels, intervalSeconds, schedule, graceSeconds, measurements } = monitor;
  const { awaitFirstBeat, maxRuntimeSeconds, recoveryBeats, missedBeatsToOpen } = monitor;
  return {
    ...{
      name,
      description,
      labels,
      intervalSeconds,
      schedule,
      graceSeconds,
      awaitFirstBeat,
      maxRuntimeSeconds,
    },
    ...{
      recoveryBeats,
      missedBeatsToOpen,
      measurements: measurements as MonitorConfiguration['measurements'],
    },
  };
}

function present(monitor: Monitor, configuration: MonitorConfiguration): Monitor {
  const entries = Object.entries(configuration.measurements).map(([key, one]) => [
    key,
    measurementRuleWithDefaults(one),
  ]);
  return { ...monitor, ...configuration, measurements: Object.fromEntries(entries) };
}

const optional = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });
const ruleArb = fc.record({
  minimum: optional(fc.integer({ min: 0, max: 3 })),
  maximum: optional(fc.integer({ min: 4, max: 9 })),
  maximumAbsoluteDelta: optional(fc.integer({ min: 0, max: 3 })),
  missingPolicy: optional(fc.constantFrom('skip', 'zero', 'reject')),
  unit: optional(fc.constantFrom('rows', 'bytes')),
});
const specArb = fc
  .record({
    name: optional(fc.constantFrom('A', 'B')),
    description: optional(fc.constantFrom('', 'x', 'y\n')),
    labels: optional(fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'))),
    cadence: fc.constantFrom(
      {},
      { intervalSeconds: 60 },
      { intervalSeconds: 90 },
      { schedule: { cron: '0 2 * * *' } },
      {
        schedule: { cron: '0 3 * * *', timeZone: 'Europe/Berlin' },
      },
    ),
    graceSeconds: optional(fc.constantFrom(60, 300, 600)),
    awaitFirstBeat: optional(fc.boolean()),
    maxRuntimeSeconds: optional(fc.constantFrom(10, 20)),
    recoveryBeats: optional(fc.integer({ min: 1, max: 3 })),
    missedBeatsToOpen: optional(fc.integer({ min: 1, max: 3 })),
    lifecycle: optional(fc.constantFrom('active', 'paused', 'archived')),
    callback: optional(
      fc.constantFrom({ kind: 'disabled' }, { kind: 'named', alias: 'a' }, { kind: 'organization_default' }),
    ),
    measurements: optional(fc.dictionary(fc.constantFrom('rows', 'bytes'), ruleArb)),
  })
  .map(({ cadence, ...spec }) => ({ ...spec, ...cadence }));

describe('plans in general', () => {
  it('bring any monitor from any spec to any other, and then there is nothing left to do', () => {
    const property = fc.property(specArb, specArb, specArb, (theirs, before, after) => {
      const facts = { isTakenOver: false, isChanged: true, nowMs: NOW };
      // A monitor that others made, then one spec after the other.
      let has = record();
      let owned: string[] = [];
      for (const spec of [theirs, before, after]) {
        if (spec === before) owned = [];
        const goal = wanted(spec);
        has = apply(has, planMonitor(goal, { ...facts, record: has, owned }).steps);
        owned = ownedMonitorFields(goal, NOW);
        expect(planMonitor(goal, { ...facts, record: has, owned, isChanged: false }).steps).toEqual([]);
      }
    });
    fc.assert(property, { numRuns: 300 });
  });

  it('leave alone what was never set', () => {
    const property = fc.property(specArb, specArb, (theirs, ours) => {
      const facts = { isTakenOver: false, isChanged: true, nowMs: NOW };
      const made = apply(
        record(),
        planMonitor(wanted(theirs), { ...facts, record: record(), owned: [] }).steps,
      );
      const goal = wanted(ours);
      const after = apply(made, planMonitor(goal, { ...facts, record: made, owned: [] }).steps);
      for (const field of [
        'name',
        'description',
        'graceSeconds',
        'awaitFirstBeat',
        'maxRuntimeSeconds',
        'lifecycle',
        'callback',
      ] as const) {
        if (ours[field] === undefined) expect(after[field]).toEqual(made[field]);
      }
      for (const [key, value] of Object.entries(made.labels)) {
        if (ours.labels?.[key] === undefined) expect(after.labels[key]).toBe(value);
      }
    });
    fc.assert(property, { numRuns: 200 });
  });

  it('give a new monitor all but measurements and lifecycle in its first call', () => {
    const property = fc.property(specArb, (spec) => {
      const goal = wanted(spec);
      const body = createMonitorBodyOf(goal);
      expect(body.monitorId).toBe('mon_1');
      expect(body.name).toBe(spec.name ?? 'backup');
      expect(body).not.toHaveProperty('measurements');
    });
    fc.assert(property, { numRuns: 50 });
  });
});

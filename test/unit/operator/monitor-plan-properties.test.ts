// Properties of plans for any spec and any monitor.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { measurementRuleWithDefaults } from '../../../src/contract/resources/measurement-rule-patch.ts';
import {
  type Monitor,
  PUBLISHED_LIMITS,
  updateMonitorBody,
} from '../../../src/contract/resources/monitor.ts';
import { applyMonitorPatch } from '../../../src/contract/resources/monitor-patch.ts';
import type { MonitorConfiguration } from '../../../src/domain/monitor.ts';
import { createMonitorBodyOf } from '../../../src/operator/kinds/monitor/desired-monitor.ts';
import { type MonitorStep, planMonitor } from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import { desired, record } from './resources.ts';

const patchBody = updateMonitorBody(PUBLISHED_LIMITS);

/** The monitor after a plan, by the contract's own merge. */
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
  it('a plan brings any monitor from any spec to any other in one pass', () => {
    const property = fc.property(specArb, specArb, specArb, (theirs, before, after) => {
      const facts = { isTakenOver: false, isChanged: true };
      // A monitor made elsewhere, then one spec after the other.
      let has = record();
      let owned: readonly string[] = [];
      for (const spec of [theirs, before, after]) {
        if (spec === before) owned = [];
        const goal = desired(spec);
        has = apply(has, planMonitor(goal, { ...facts, record: has, owned }).steps);
        owned = goal.ownedFields;
        expect(planMonitor(goal, { ...facts, record: has, owned, isChanged: false }).steps).toEqual([]);
      }
    });
    fc.assert(property, { numRuns: 300 });
  });

  it('a plan changes no field that the spec never set', () => {
    const property = fc.property(specArb, specArb, (theirs, ours) => {
      const facts = { isTakenOver: false, isChanged: true };
      const made = apply(
        record(),
        planMonitor(desired(theirs), { ...facts, record: record(), owned: [] }).steps,
      );
      const goal = desired(ours);
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

  it('the call that creates a monitor has everything but measurements and lifecycle', () => {
    const property = fc.property(specArb, (spec) => {
      const goal = desired(spec);
      const body = createMonitorBodyOf(goal);
      expect(body.monitorId).toBe('mon_1');
      expect(body.name).toBe(spec.name ?? 'backup');
      expect(body).not.toHaveProperty('measurements');
    });
    fc.assert(property, { numRuns: 50 });
  });
});

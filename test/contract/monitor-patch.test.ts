// A patch merged into a stored configuration: RFC 7396, and the checks that need the merged configuration.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseInput } from '../../src/contract/fields/field-errors.ts';
import { measurementRuleWithDefaults } from '../../src/contract/resources/measurement-rule-patch.ts';
import { PUBLISHED_LIMITS, updateMonitorBody } from '../../src/contract/resources/monitor.ts';
import { applyMonitorPatch } from '../../src/contract/resources/monitor-patch.ts';
import type { MonitorConfiguration } from '../../src/domain/monitor.ts';

const base: MonitorConfiguration = {
  name: 'Nightly',
  labels: { team: 'payments' },
  graceSeconds: 600,
  awaitFirstBeat: false,
  recoveryBeats: 3,
  missedBeatsToOpen: 2,
  measurements: {},
};
const body = updateMonitorBody(PUBLISHED_LIMITS);

function merge(current: Partial<MonitorConfiguration>, patch: object) {
  const parsed = parseInput(body, { patch });
  if ('fieldErrors' in parsed) throw new Error(JSON.stringify(parsed.fieldErrors));
  return applyMonitorPatch({ ...base, ...current }, parsed.value.patch, PUBLISHED_LIMITS);
}

function merged(current: Partial<MonitorConfiguration>, patch: object): MonitorConfiguration {
  const result = merge(current, patch);
  if ('fieldErrors' in result) throw new Error(JSON.stringify(result.fieldErrors));
  return result.configuration;
}

function faults(current: Partial<MonitorConfiguration>, patch: object): string[] {
  const result = merge(current, patch);
  return 'fieldErrors' in result ? result.fieldErrors.map(({ path, code }) => `${path}: ${code}`) : [];
}

describe('a patch', () => {
  it('a patch keeps the fields that it omits, and null removes or resets a field', () => {
    expect(merged({}, {})).toEqual(base);
    const reset = merged(
      { description: 'x', intervalSeconds: 60, maxRuntimeSeconds: 5 },
      {
        description: null,
        intervalSeconds: null,
        maxRuntimeSeconds: null,
        labels: null,
        graceSeconds: null,
        awaitFirstBeat: null,
        recoveryBeats: null,
        missedBeatsToOpen: null,
      },
    );
    expect(reset).toEqual({
      name: 'Nightly',
      labels: {},
      graceSeconds: 300,
      awaitFirstBeat: true,
      recoveryBeats: 1,
      missedBeatsToOpen: 1,
      measurements: {},
    });
  });

  it('a patch merges labels by key, up to 32', () => {
    expect(merged({}, { labels: { team: null, tier: 'one' } }).labels).toEqual({ tier: 'one' });
    const full = Object.fromEntries(Array.from({ length: 32 }, (_, index) => [`k${index}`, 'v']));
    expect(faults({ labels: full }, { labels: { more: 'v' } })).toEqual(['patch.labels: too_many']);
    expect(faults({ labels: full }, { labels: { more: 'v', k0: null } })).toEqual([]);
  });

  it('a patch replaces an interval by a schedule only with a null for the interval, and the other way round', () => {
    const schedule = { cron: '0 2 * * *', timeZone: 'Europe/Berlin' };
    expect(faults({ intervalSeconds: 60 }, { schedule })).toEqual(['patch.schedule: mutually_exclusive']);
    expect(merged({ intervalSeconds: 60 }, { schedule, intervalSeconds: null }).schedule).toEqual(schedule);
    expect(faults({ schedule }, { intervalSeconds: 60 })).toEqual([
      'patch.intervalSeconds: mutually_exclusive',
    ]);
    expect(merged({ schedule }, { schedule: { cron: '0 3 * * *' } }).schedule).toEqual({
      ...schedule,
      cron: '0 3 * * *',
    });
    expect(faults({}, { schedule: { timeZone: 'UTC' } })).toEqual(['patch.schedule.cron: required']);
    expect(merged({ schedule }, { schedule: { timeZone: null } }).schedule?.timeZone).toBe('UTC');
  });
});

describe('a patch of a measurement', () => {
  const active = { mode: 'active', version: 1 } as const;

  it('a patch sets, merges and removes the rules of measurements', () => {
    const rows = { minimum: 1, ratio: { denominator: 'all', minimum: 0 } };
    expect(merged({}, { measurements: { rows } }).measurements).toEqual({ rows });
    const patched = merged(
      { measurements: { rows } },
      { measurements: { rows: { minimum: null, ratio: { maximum: 1 } } } },
    );
    expect(patched.measurements).toEqual({ rows: { ratio: { denominator: 'all', minimum: 0, maximum: 1 } } });
    expect(
      merged({ measurements: { rows } }, { measurements: { rows: null, other: null } }).measurements,
    ).toEqual({});
    expect(merged({ measurements: { rows } }, { measurements: null }).measurements).toEqual({});
  });

  it('a rule that a patch disables is removed', () => {
    const current = { rows: { minimum: 1, maximum: 5 } };
    expect(
      merged({ measurements: current }, { measurements: { rows: { disabledRules: ['maximum'] } } })
        .measurements,
    ).toEqual({
      rows: { minimum: 1 },
    });
  });

  it('a patch replaces a rule policy as a whole, so its two shapes never mix', () => {
    const current = {
      rows: { minimum: 1, rulePolicy: { consecutiveObservations: 2, severity: 'info' as const } },
    };
    const rulePolicy = {
      version: 1,
      transientConsequence: 'none',
      sustainedConsequence: 'critical',
      sustainedCriterion: { kind: 'observations', observations: 3 },
    };
    expect(
      merged({ measurements: current }, { measurements: { rows: { rulePolicy } } }).measurements.rows,
    ).toEqual({
      minimum: 1,
      rulePolicy,
    });
  });

  it('a patch is refused when the merged rule is not valid', () => {
    const current = { measurements: { rows: { minimum: 5 } } };
    const path = 'patch.measurements.rows';
    expect(faults(current, { measurements: { rows: { maximum: 1 } } })).toEqual([
      `${path}.minimum: minimum_above_maximum`,
    ]);
    expect(faults(current, { measurements: { rows: { minimum: null, ruleAction: active } } })).toEqual([
      `${path}.ruleAction.mode: rule_required`,
    ]);
    expect(faults({}, { measurements: { rows: { ratio: { maximum: 1 } } } })).toEqual([
      `${path}.ratio.denominator: required`,
    ]);
    expect(faults({}, { measurements: { rows: { ratio: { denominator: 'rows', maximum: 1 } } } })).toEqual([
      `${path}.ratio.denominator: denominator_is_itself`,
    ]);
    expect(faults({}, { measurements: { rows: { zeroExpectation: 'zero', transform: 'log1p' } } })).toEqual([
      `${path}.transform: transform_not_applicable`,
    ]);
  });

  it('a definition that loses its last rule becomes inactive', () => {
    const current = { measurements: { rows: { minimum: 5, ruleAction: active } } };
    const { rows } = merged(current, { measurements: { rows: { minimum: null } } }).measurements;
    expect(rows).toEqual({});
    expect(measurementRuleWithDefaults(rows ?? {}).ruleAction?.mode).toBe('inactive');
    expect(measurementRuleWithDefaults({ minimum: 1 })).toEqual({
      metricType: 'gauge',
      minimum: 1,
      missingPolicy: 'skip',
      transform: 'none',
      mode: 'heartbeat',
      ruleAction: active,
      rulePolicy: { consecutiveObservations: 1, severity: 'warning' },
    });
  });

  it('a patch with the values that were read changes nothing, defaults included', () => {
    const current = { measurements: { rows: { minimum: 1 }, none: {} } };
    for (const [key, rule] of Object.entries(current.measurements)) {
      const { ruleAction, ...read } = measurementRuleWithDefaults(rule);
      const patch = { measurements: { [key]: key === 'none' ? read : { ...read, ruleAction } } };
      expect(merged(current, patch).measurements).toEqual(current.measurements);
    }
    const inactive = { measurements: { none: { ruleAction: { mode: 'inactive', version: 1 } } } };
    const later = merged(merged(current, inactive), { measurements: { none: { maximum: 2 } } });
    expect(measurementRuleWithDefaults(later.measurements.none ?? {}).ruleAction?.mode).toBe('inactive');
  });

  it('a patch applied twice gives the same rule as once, and the rule is a valid patch', () => {
    const bound = fc.option(fc.integer({ min: -5, max: 5 }), { nil: null });
    const patches = fc.record(
      {
        minimum: bound,
        maximum: bound,
        maximumAbsoluteDelta: fc.option(fc.nat(9), { nil: null }),
        zeroExpectation: fc.constantFrom('zero', 'nonzero', null),
        ratio: fc.option(fc.record({ denominator: fc.constantFrom('all', 'rows'), minimum: bound }), {
          nil: null,
        }),
        transform: fc.constantFrom('none', 'log1p', null),
        disabledRules: fc.subarray(['minimum', 'maximum', 'ratio', 'zeroExpectation']),
        ruleAction: fc.constantFrom(active, { mode: 'inactive', version: 1 }, null),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(patches, { maxLength: 4 }), (steps) => {
        let current: MonitorConfiguration = base;
        for (const rows of steps) {
          const parsed = parseInput(body, { patch: { measurements: { rows } } });
          if ('fieldErrors' in parsed) continue;
          const once = applyMonitorPatch(current, parsed.value.patch, PUBLISHED_LIMITS);
          if ('fieldErrors' in once) continue;
          const twice = applyMonitorPatch(once.configuration, parsed.value.patch, PUBLISHED_LIMITS);
          if (rows.ruleAction?.mode !== 'active') expect(twice).toEqual(once);
          current = once.configuration;
          const stored = current.measurements.rows ?? {};
          expect(JSON.stringify(stored)).not.toMatch(/null|disabledRules/);
          const again = parseInput(body, { patch: { measurements: { rows: stored } } });
          expect('value' in again).toBe(true);
        }
      }),
    );
  });
});

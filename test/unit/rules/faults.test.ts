// Which successes the definitions refuse, whatever came before.
import { describe, expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { findRuleFaults } from '../../../src/domain/rules/faults.ts';

const faults = (rows: MeasurementRule, measurements: Record<string, number>) =>
  findRuleFaults(compileRules({ rows }), measurements);
const codes = (rows: MeasurementRule, measurements: Record<string, number>) =>
  faults(rows, measurements).map(({ code }) => code);

describe('the form of a value', () => {
  const VALUES = [-2, -1, -0.5, -0, 0.5, 2];
  // `r`: out of range; `i`: no whole number; `.`: taken.
  const FORMS: [NonNullable<MeasurementRule['metricType']>, 'none' | 'log1p', string][] = [
    ['gauge', 'none', '......'],
    ['rate', 'none', '......'],
    ['duration', 'none', 'rrr...'],
    ['size', 'none', 'rrr...'],
    ['count', 'none', 'rrr.i.'],
    ['counter', 'none', 'rrr.i.'],
    ['gauge', 'log1p', 'rr....'],
    ['rate', 'log1p', 'rr....'],
    ['duration', 'log1p', 'rrr...'],
    ['size', 'log1p', 'rrr...'],
    ['count', 'log1p', 'rrr.i.'],
    ['counter', 'log1p', 'rrr.i.'],
  ];
  const SIGNS: Record<string, string[]> = { r: ['out_of_range'], i: ['not_an_integer'], '.': [] };

  for (const [metricType, transform, signs] of FORMS) {
    for (const missingPolicy of ['skip', 'zero', 'reject'] as const) {
      it(`${metricType}, ${transform}, ${missingPolicy}`, () => {
        for (const [index, rows] of VALUES.entries()) {
          const expected = SIGNS[signs[index] ?? ''];
          const form = { metricType, transform, missingPolicy };
          expect(codes(form, { rows }), String(rows)).toEqual(expected);
          expect(codes({ ...form, minimum: 5 }, { rows }), String(rows)).toEqual(expected);
        }
        expect(codes({ metricType, transform, missingPolicy }, {})).toEqual(
          missingPolicy === 'reject' ? ['required'] : [],
        );
      });
    }
  }

  it('is refused where the rules are inactive, too', () => {
    expect(
      codes({ metricType: 'count', ruleAction: { mode: 'inactive', version: 1 } }, { rows: 0.5 }),
    ).toEqual(['not_an_integer']);
  });

  it('takes the largest numbers, and whole ones that have no neighbours', () => {
    expect(codes({ metricType: 'count' }, { rows: Number.MAX_VALUE })).toEqual([]);
    expect(codes({ transform: 'log1p' }, { rows: Number.MAX_VALUE })).toEqual([]);
  });
});

describe('the denominator of a ratio', () => {
  const ratio = { denominator: 'files', maximum: 3 };

  it('is refused by `reject` alone, when it is missing or 0', () => {
    for (const missingPolicy of ['skip', 'zero'] as const) {
      expect(codes({ ratio, missingPolicy }, { rows: 1 })).toEqual([]);
      expect(codes({ ratio, missingPolicy }, { rows: 1, files: 0 })).toEqual([]);
    }
    expect(faults({ ratio, missingPolicy: 'reject' }, { rows: 1 })).toEqual([
      {
        code: 'required',
        message: 'Send it with each success: rows is divided by it.',
        path: 'measurements.files',
      },
    ]);
    for (const files of [0, -0]) {
      expect(faults({ ratio, missingPolicy: 'reject' }, { rows: 1, files })).toEqual([
        {
          code: 'out_of_range',
          message: 'Use a number other than 0: rows is divided by it.',
          path: 'measurements.files',
        },
      ]);
    }
    expect(codes({ ratio, missingPolicy: 'reject' }, { rows: 1, files: -2 })).toEqual([]);
  });
});

describe('several faults', () => {
  it('are all named, each path once, 32 at most', () => {
    const count = { metricType: 'count' } as const;
    const three = compileRules({ rows: count, files: count, bytes: { metricType: 'size' } });
    expect(findRuleFaults(three, { rows: 0.5, files: -1, bytes: -1 }).map(({ path }) => path)).toEqual([
      'measurements.bytes',
      'measurements.files',
      'measurements.rows',
    ]);
    const missingPolicy = 'reject';
    const same = compileRules({
      rows: { missingPolicy, ratio: { denominator: 'files', minimum: 1 } },
      files: { missingPolicy },
    });
    expect(findRuleFaults(same, { rows: 1 })).toHaveLength(1);
    const many = Object.fromEntries(
      Array.from({ length: 64 }, (_, index) => [`m${index}`, { missingPolicy } as const]),
    );
    expect(findRuleFaults(compileRules(many), {})).toHaveLength(32);
  });

  it('take a key for no value that every object has', () => {
    const rules = compileRules({ constructor: { missingPolicy: 'reject' as const } });
    expect(findRuleFaults(rules, {})).toHaveLength(1);
    expect(findRuleFaults(rules, { constructor: 3 })).toEqual([]);
  });
});

// What of a success the definitions refuse, whatever came before it (docs/contract/rules.md).
import type { FieldError } from '../problem.ts';
import { type Measurements, rawOf } from './compare.ts';
import type { CompiledMeasurement, CompiledRules } from './compile.ts';

/** As many as a problem body may have. */
const MAX_FAULTS = 32;

/** The faults of a success, with paths such as `measurements.rows`. Empty: the rules take it. */
export function findRuleFaults(
  { measurements: rules }: CompiledRules,
  measurements: Measurements,
): FieldError[] {
  if (rules.size === 0) return [];
  const faults: FieldError[] = [];
  for (const measurement of rules.values()) {
    const fault = faultOf(measurement, measurements);
    if (fault && !faults.some(({ path }) => path === fault.path)) faults.push(fault);
    if (faults.length === MAX_FAULTS) break;
  }
  return faults;
}

/** Why the definition of one measurement refuses a success. */
export function faultOf(
  measurement: CompiledMeasurement,
  measurements: Measurements,
): FieldError | undefined {
  const { key, metricType, missingPolicy, log1p } = measurement;
  const raw = rawOf(measurements, key);
  if (raw === undefined) {
    return missingPolicy === 'reject' ? fault(key, 'required', 'Send it with each success.') : undefined;
  }
  if (metricType !== 'gauge' && metricType !== 'rate') {
    const isSize = metricType === 'duration' || metricType === 'size';
    if (raw < 0) return fault(key, 'out_of_range', `Use a number of at least 0: it is a ${metricType}.`);
    if (!(isSize || Number.isInteger(raw))) {
      return fault(key, 'not_an_integer', `Use a whole number: it is a ${metricType}.`);
    }
  }
  if (log1p && raw <= -1) {
    return fault(key, 'out_of_range', 'Use a number above -1: others have no log1p.');
  }
  return missingPolicy === 'reject' ? denominatorFault(measurement, measurements) : undefined;
}

function denominatorFault(
  measurement: CompiledMeasurement,
  measurements: Measurements,
): FieldError | undefined {
  const ratio = measurement.checks.find(({ kind }) => kind === 'ratio');
  if (ratio?.denominator === undefined) return undefined;
  const divisor = rawOf(measurements, ratio.denominator);
  if (divisor === undefined) {
    return fault(
      ratio.denominator,
      'required',
      `Send it with each success: ${measurement.key} is divided by it.`,
    );
  }
  if (divisor !== 0) return undefined;
  return fault(
    ratio.denominator,
    'out_of_range',
    `Use a number other than 0: ${measurement.key} is divided by it.`,
  );
}

function fault(key: string, code: string, message: string): FieldError {
  return { code, message, path: `measurements.${key}` };
}

// The successes of a monitor as far as one measurement needs them, and the values that rules would compare: v of
// docs/contract/rules.md. Numbers alone, so that a month fits into a few megabytes.
import type { MeasurementRule } from '../monitor.ts';
import { currentOf, rawOf } from './compare.ts';
import { type CompiledMeasurement, compileRules } from './compile.ts';
import { faultOf } from './faults.ts';
import type { RuleObservation } from './state.ts';

export class ValueHistory {
  readonly #key: string;
  readonly #measurement: CompiledMeasurement;
  #raw: number | undefined;
  readonly #values: number[] = [];
  readonly #valuesAtMs: number[] = [];
  // One entry for each success. NaN: it does not have the key.
  readonly #sequences: number[] = [];
  readonly #atMs: number[] = [];
  readonly #raws: number[] = [];

  /** `form`: what decides the values, and which successes are refused. Its rules do not count. */
  constructor(
    key: string,
    { metricType, missingPolicy }: Pick<MeasurementRule, 'metricType' | 'missingPolicy'>,
  ) {
    this.#key = key;
    // Without a rule nothing is compiled; which one it is makes no difference to the values.
    const compiled = compileRules({ [key]: { metricType, missingPolicy, maximum: 0 } });
    this.#measurement = compiled.measurements.get(key) as CompiledMeasurement;
  }

  /** The next success, in the order of sequences. */
  take({ sequence, atMs, measurements }: RuleObservation): void {
    const raw = rawOf(measurements, this.#key);
    this.#sequences.push(sequence);
    this.#atMs.push(atMs);
    this.#raws.push(raw ?? Number.NaN);
    if (faultOf(this.#measurement, measurements)) return;
    const value = currentOf(this.#measurement, { raw: this.#raw }, raw);
    this.#raw = raw ?? this.#raw;
    if (value === undefined) return;
    this.#values.push(value);
    this.#valuesAtMs.push(atMs);
  }

  get valueCount(): number {
    return this.#values.length;
  }

  get successCount(): number {
    return this.#sequences.length;
  }

  /** In ascending order. */
  sortedValues(): Float64Array {
    return Float64Array.from(this.#values).sort();
  }

  /** From the first value to the last. */
  get spanMs(): number {
    return (this.#valuesAtMs.at(-1) ?? 0) - (this.#valuesAtMs[0] ?? 0);
  }

  /** Successes as they were taken, with this measurement alone. Indexes as those of `slice`. */
  *successes(from: number, to: number): Generator<RuleObservation> {
    for (let index = from; index < Math.min(to, this.#sequences.length); index += 1) {
      const raw = this.#raws[index] as number;
      yield {
        sequence: this.#sequences[index] as number,
        atMs: this.#atMs[index] as number,
        measurements: Number.isNaN(raw) ? {} : { [this.#key]: raw },
      };
    }
  }
}

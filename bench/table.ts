// Shows figures: medians of interleaved pairs with their spread, as a Markdown table.

export interface Ratio {
  name: string;
  /** One value a pair. */
  values: number[];
  goal?: string;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/** The value below which `share` of them are. `sorted` is in ascending order. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** Each value against the value of the same pair. */
export function ratiosTo(base: readonly number[], values: readonly number[]): number[] {
  return values.map((value, pair) => value / (base[pair] ?? Number.NaN));
}

export function printRatios(title: string, ratios: readonly Ratio[]): void {
  console.log(`\n### ${title}\n\n| ratio | median | lowest to highest | goal |\n|---|---|---|---|`);
  for (const { name, values, goal } of ratios) {
    const spread = `${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}`;
    console.log(`| ${name} | ${median(values).toFixed(2)} | ${spread} | ${goal ?? ''} |`);
  }
}

/** The noise of the machine: how far runs of one measurement differ from their median. */
export function noiseOf(values: readonly number[]): string {
  const middle = median(values);
  const percent = (value: number) => `${(((value - middle) / middle) * 100).toFixed(0)} %`;
  return `${percent(Math.min(...values))} to +${percent(Math.max(...values))}`;
}

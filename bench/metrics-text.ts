// Reads the text format of Prometheus: sums of the series of a metric.

export interface Series {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Histograms and counters alike: each line is a series. `name` leaves out all others before they are read. */
export function* readSeries(lines: Iterable<string>, name: string): Generator<Series> {
  for (const line of lines) {
    if (!line.startsWith(name)) continue;
    const [, found = '', labels = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (found !== name) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
    yield {
      name,
      labels: Object.fromEntries(pairs.map(([, key = '', text = '']) => [key, text])),
      value: Number(value),
    };
  }
}

/** By what `keyOf` says of the labels; undefined leaves a series out. */
export function sumBy(
  lines: Iterable<string>,
  name: string,
  keyOf: (labels: Record<string, string>) => string | undefined,
): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { labels, value } of readSeries(lines, name)) {
    const key = keyOf(labels);
    if (key !== undefined) sums.set(key, (sums.get(key) ?? 0) + value);
  }
  return sums;
}

/** What was added since, without what was not. */
export function since(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): Map<string, number> {
  const grown = [...after].map(([key, value]): [string, number] => [key, value - (before.get(key) ?? 0)]);
  return new Map(grown.filter(([, value]) => value !== 0));
}

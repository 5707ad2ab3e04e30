import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createLog } from '../../../src/telemetry/log.ts';
import { OccasionalWarning } from '../../../src/telemetry/occasional-warning.ts';

describe('an occasional warning', () => {
  let lines: Record<string, unknown>[];
  let warning: OccasionalWarning;
  beforeEach(() => {
    vi.useFakeTimers();
    lines = [];
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(JSON.parse(line)) },
    );
    warning = new OccasionalWarning(log, 'It does not work.', 5_000);
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const logged = () => lines.map(({ n, others, msg }) => ({ n, others, msg }));

  test('the first occurrence is logged at once, and later ones as one line after the period', () => {
    for (let n = 1; n <= 4; n += 1) warning.record({ n });
    expect(logged()).toEqual([{ n: 1, others: undefined, msg: 'It does not work.' }]);
    vi.advanceTimersByTime(5_000);
    expect(logged().slice(1)).toEqual([{ n: 4, others: 2, msg: 'It does not work.' }]);
  });

  test('occurrences that continue are logged as one line a period, and the first after a pause at once', () => {
    for (let n = 1; n <= 120; n += 1) {
      warning.record({ n });
      vi.advanceTimersByTime(100);
    }
    expect(logged().map(({ others }) => others)).toEqual([undefined, 48, 49]);
    vi.advanceTimersByTime(20_000);
    expect(lines).toHaveLength(4);
    warning.record({ n: 0 });
    expect(logged().at(-1)).toMatchObject({ n: 0, others: undefined });
  });
});

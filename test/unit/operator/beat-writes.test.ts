// Which statuses are written for beats alone, on a fake clock: at most one a period for a Monitor, at most so many a second
// for all of them, in turns.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BeatWrites, isFurtherBeat } from '../../../src/operator/kinds/monitor/beat-writes.ts';
import type { MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { BeatBudget } from '../../../src/operator/known/beat-budget.ts';
import type { CachedMonitorStatus } from '../../../src/operator/known/monitor-status-cache.ts';
import type { ObjectMemory } from '../../../src/operator/known/object-cache.ts';
import { monitorObject, NOW } from './resources.ts';

const PERIOD_MS = 60_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'], now: NOW });
});
afterEach(() => vi.useRealTimers());

describe('the status of one Monitor', () => {
  type Status = NonNullable<MonitorObject['status']>;
  const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();
  /** A Monitor whose status is written as soon as it is not held back. */
  function written(first: Status) {
    const writes = new BeatWrites({ lastBeatPeriodMs: PERIOD_MS, beatWritesPerSecond: 50 }, () => true);
    const memory: ObjectMemory = {};
    let status = first;
    const history: string[] = [];
    return {
      history,
      /** Whether a further beat needs a pass. */
      isHeldBack: () => writes.isHoldingBack(monitorObject({}, {}, status), memory),
      /** `isFailing`: the API server refuses the write. */
      sees(seen: Partial<Status>, isFailing = false): number {
        const next = { ...status, ...seen };
        const waitMs = writes.holdBack(monitorObject({}, {}, status), memory, next);
        if (waitMs > 0) return waitMs;
        if (isFailing) return 0;
        writes.written(memory);
        status = next;
        history.push(`${Date.now() - NOW} ${next.health}`);
        return 0;
      },
    };
  }
  const up = (seconds: number): Status => ({ health: 'up', lastBeatAt: at(seconds) });

  it('a job that is late for a moment at each run is written once a run, and never as late', () => {
    const monitor = written(up(-3600));
    for (let run = 0; run < 5; run += 1) {
      expect(monitor.sees({ health: 'late' })).toBe(PERIOD_MS);
      vi.advanceTimersByTime(20_000);
      expect(monitor.sees(up((Date.now() - NOW) / 1000))).toBe(0);
      vi.advanceTimersByTime(3_580_000);
    }
    expect(monitor.history).toHaveLength(5);
    expect(monitor.history.join()).not.toContain('late');
  });

  it('a job that is late at each of its runs of half a minute is written once a period', () => {
    const monitor = written(up(0));
    for (let run = 0; run < 20; run += 1) {
      monitor.sees({ health: 'late' });
      vi.advanceTimersByTime(5000);
      monitor.sees(up((Date.now() - NOW) / 1000));
      vi.advanceTimersByTime(25_000);
    }
    expect(monitor.history.length).toBeLessThanOrEqual(10);
  });

  it('a write that failed is tried again at once', () => {
    const monitor = written(up(-3600));
    expect(monitor.sees(up(0), true)).toBe(0);
    expect(monitor.sees(up(0))).toBe(0);
    expect(monitor.history).toHaveLength(1);
    expect(monitor.sees(up(1))).toBe(PERIOD_MS);
  });

  it('a job that stays late is shown as late after a period', () => {
    const monitor = written(up(-3600));
    expect(monitor.sees({ health: 'late' })).toBe(PERIOD_MS);
    vi.advanceTimersByTime(PERIOD_MS);
    expect(monitor.sees({ health: 'late' })).toBe(0);
    expect(monitor.history).toEqual([`${PERIOD_MS} late`]);
  });

  it('a job that is late and then down is shown as down at once', () => {
    const monitor = written(up(-3600));
    monitor.sees({ health: 'late' });
    vi.advanceTimersByTime(1000);
    expect(monitor.sees({ health: 'down' })).toBe(0);
    expect(monitor.history).toEqual(['1000 down']);
  });

  it('a job that was late and down before is held back as any other when it is late again', () => {
    const monitor = written(up(-3600));
    monitor.sees({ health: 'late' });
    for (const seen of [{ health: 'down' }, up(0)] as const) expect(monitor.sees(seen)).toBe(0);
    vi.advanceTimersByTime(2 * PERIOD_MS);
    expect(monitor.sees({ health: 'late' })).toBe(PERIOD_MS);
  });

  it('a beat that waits needs no further pass until its time has come', () => {
    const monitor = written(up(-3600));
    expect(monitor.isHeldBack()).toBe(false);
    monitor.sees(up(0));
    expect(monitor.isHeldBack()).toBe(false);
    vi.advanceTimersByTime(1000);
    expect(monitor.sees(up(1))).toBe(PERIOD_MS - 1000);
    expect(monitor.isHeldBack()).toBe(true);
    vi.advanceTimersByTime(PERIOD_MS - 1000);
    expect(monitor.isHeldBack()).toBe(false);
    expect(monitor.sees(up(30))).toBe(0);
    expect(monitor.isHeldBack()).toBe(false);
  });

  it('a beat of a job that was late needs a pass, and so does what comes after other news', () => {
    const monitor = written(up(-3600));
    monitor.sees({ health: 'late' });
    expect(monitor.isHeldBack()).toBe(false);
    monitor.sees(up(0));
    monitor.sees(up(1));
    expect(monitor.isHeldBack()).toBe(true);
    monitor.sees({ health: 'down' });
    expect(monitor.isHeldBack()).toBe(false);
  });

  it('a beat that waits for its turn needs no further pass until then', () => {
    const woken: string[] = [];
    const settings = { lastBeatPeriodMs: PERIOD_MS, beatWritesPerSecond: 1 };
    const writes = new BeatWrites(settings, (key) => woken.push(key) > 0);
    const sees = (name: string) => {
      const object = monitorObject({}, { name }, up(-3600));
      const memory: ObjectMemory = {};
      return [writes.holdBack(object, memory, up(0)), writes.isHoldingBack(object, memory)];
    };
    expect(sees('first')).toEqual([0, false]);
    expect(sees('second')).toEqual([Number.POSITIVE_INFINITY, true]);
    vi.advanceTimersByTime(1000);
    expect(woken).toHaveLength(1);
    expect(sees('second')).toEqual([0, false]);
  });

  it('a last beat of the future, which somebody wrote or another clock stated, holds nothing back', () => {
    expect(written(up(86_400)).sees(up(0))).toBe(0);
  });
});

describe('a further beat', () => {
  const seen = (more: object = {}, status: object = {}) =>
    ({
      ...{ lifecycle: 'active', configurationVersion: 3, atMs: 0, ...more },
      status: {
        ...{ health: 'up', openIncidents: [], cadence: { source: 'configured', intervalSeconds: 60 } },
        ...{ firstBeatAt: 'a', lastBeatAt: 'b', nextDeadlineAt: 'c', ...status },
      },
    }) as unknown as CachedMonitorStatus;

  it('is one that changes nothing but what each beat changes', () => {
    const next = { lastBeatAt: 'd', nextDeadlineAt: 'e', lastSequence: 2, lastDurationSeconds: 7 };
    expect(isFurtherBeat(seen(), seen({ atMs: 9, because: 'x' }, next))).toBe(true);
  });

  it.each([
    ['without a status before', undefined, seen()],
    ['of a monitor that is late', seen({}, { health: 'late' }), seen({}, { health: 'late' })],
    ['after which it is up again', seen({}, { health: 'late' }), seen()],
    ['that is the first one', seen({}, { firstBeatAt: undefined, lastBeatAt: undefined }), seen()],
    ['that starts the clock', seen({}, { nextDeadlineAt: undefined }), seen()],
    ['with another rhythm', seen(), seen({}, { cadence: { source: 'configured', intervalSeconds: 90 } })],
    ['with another configuration', seen(), seen({ configurationVersion: 4 })],
    ['after which an incident is open', seen(), seen({}, { openIncidents: [{ incidentId: 'i' }] })],
    ['after which maintenance is on', seen(), seen({}, { maintenance: { endsAt: 'f' } })],
    ['after which another object has the monitor', seen(), seen({ origin: { uid: 'u' } })],
  ])('is not one %s', (_name, before, after) => {
    expect(isFurtherBeat(before, after)).toBe(false);
  });
});

describe('the budget of all Monitors', () => {
  const keys = (namespace: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${namespace}/${i}`);
  /** A budget of 50 a second whose woken objects write at once. */
  function budget(isUsed = (_key: string) => true, isThere = (_key: string) => true) {
    const writes: string[] = [];
    const made: BeatBudget = new BeatBudget(50, (key) => {
      if (isThere(key) && isUsed(key) && made.take(key)) writes.push(key);
      return isThere(key);
    });
    const ask = (all: readonly string[]) => {
      for (const key of all) if (made.take(key)) writes.push(key);
    };
    return { writes, ask, forget: (key: string) => made.forget(key) };
  }

  it('of thousands that beat at once, 50 a second are written, each in its turn', () => {
    const { writes, ask } = budget();
    ask(keys('payments', 5000));
    expect(writes).toHaveLength(50);
    for (let second = 1; second <= 20; second += 1) {
      vi.advanceTimersByTime(1000);
      expect(Math.abs(writes.length - 50 * (second + 1))).toBeLessThanOrEqual(1);
    }
    vi.advanceTimersByTime(80_000);
    expect(new Set(writes).size).toBe(5000);
    expect(writes).toHaveLength(5000);
  });

  it('a namespace with very many Monitors does not keep those of another waiting', () => {
    const { writes, ask } = budget();
    ask(keys('many', 5000));
    ask(keys('few', 10));
    vi.advanceTimersByTime(1000);
    expect(writes.filter((key) => key.startsWith('few/'))).toHaveLength(10);
  });

  it('turns that nobody uses end, and others have theirs', () => {
    const { writes, ask } = budget((key) => !key.startsWith('gone/'));
    ask(keys('first', 50));
    ask(keys('gone', 200));
    ask(keys('there', 200));
    vi.advanceTimersByTime(60_000);
    expect(writes.filter((key) => key.startsWith('there/'))).toHaveLength(200);
  });

  it('objects that are gone take no turn of others', () => {
    const { writes, ask } = budget(undefined, (key) => !key.startsWith('gone/'));
    ask(keys('first', 50));
    ask(keys('gone', 2000));
    ask(keys('there', 50));
    vi.advanceTimersByTime(1020);
    expect(writes.filter((key) => key.startsWith('there/')).length).toBeGreaterThanOrEqual(49);
  });

  it('a Monitor whose status was written for another reason waits no more', () => {
    const { writes, ask, forget } = budget();
    ask(keys('payments', 100));
    for (const key of keys('payments', 100)) forget(key);
    vi.advanceTimersByTime(60_000);
    expect(writes).toHaveLength(50);
  });
});

// What a controller does after each result of a reconcile.

import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Controller, type Reconcile } from '../../../src/kube/controller.ts';
import { KubeError } from '../../../src/kube/kube-error.ts';
import { createKubeMetrics } from '../../../src/kube/kube-metrics.ts';
import { WorkQueue } from '../../../src/kube/work-queue.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

function start(reconcile: Reconcile, concurrency = 1) {
  const registry = new Registry();
  const metrics = createKubeMetrics(registry);
  const backoff = { baseMs: 1000, maxMs: 60_000, random: () => 0.5 };
  const queue = new WorkQueue({ name: 'test', backoff });
  const controller = new Controller({
    name: 'test',
    reconcile,
    concurrency,
    queue,
    metrics,
    reconcileTimeoutMs: 5000,
  });
  controller.start();
  const count = async (name: string, labels = '') => {
    const line = new RegExp(`^controller_runtime_${name}\\{controller="test"${labels}\\} (\\d+)$`, 'm');
    return Number(line.exec(await registry.metrics())?.[1]);
  };
  const results = (result: string) => count('reconcile_total', `,result="${result}"`);
  return { controller, count, results };
}

/** A reconcile that records when it was called and gives these results in turn, then undefined. */
function outcomes(...list: (Error | { requeueAfterMs: number } | undefined)[]) {
  const calledAtMs: number[] = [];
  const reconcile: Reconcile = async () => {
    calledAtMs.push(Math.round(performance.now()));
    const outcome = list.shift();
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  return { reconcile, calledAtMs, gaps: () => calledAtMs.slice(1).map((at, i) => at - (calledAtMs[i] ?? 0)) };
}

const conflict = new KubeError('moved', { status: 409, reason: 'Conflict' });

describe('a controller', () => {
  it('a controller does not repeat a successful reconcile', async () => {
    const { reconcile, calledAtMs } = outcomes();
    const { controller, results } = start(reconcile);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(120_000);
    expect(calledAtMs).toHaveLength(1);
    expect(await results('success')).toBe(1);
    expect(await results('error')).toBe(0);
  });

  it('a controller reconciles again after requeueAfterMs', async () => {
    const { reconcile, gaps } = outcomes({ requeueAfterMs: 7000 });
    const { controller, results } = start(reconcile);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaps()).toEqual([7000]);
    expect(await results('requeue_after')).toBe(1);
  });

  it('a controller retries after errors with growing delays, which a success resets', async () => {
    const broken = new Error('broken');
    const { reconcile, gaps } = outcomes(broken, broken, broken, undefined, broken);
    const { controller, count } = start(reconcile);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(gaps()).toEqual([1000, 2000, 4000]);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(gaps().at(-1)).toBe(1000);
    expect(await count('reconcile_errors_total')).toBe(4);
  });

  it('a controller waits for the retryAfterMs of an error', async () => {
    const busy = new KubeError('busy', { status: 429, reason: 'TooManyRequests', retryAfterMs: 30_000 });
    const { reconcile, gaps } = outcomes(busy);
    start(reconcile).controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(gaps()).toEqual([30_000]);
  });

  it('a controller retries after a conflict without counting an error', async () => {
    const { reconcile, gaps } = outcomes(conflict);
    const { controller, count, results } = start(reconcile);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(10_000);
    expect(gaps()).toEqual([1000]);
    expect(await results('requeue')).toBe(1);
    expect(await count('reconcile_errors_total')).toBe(0);
  });

  it('a controller works on different keys at once, but never twice on one key', async () => {
    const inWork = new Map<string, number>();
    let most = 0;
    const reconcile: Reconcile = async (key) => {
      inWork.set(key, (inWork.get(key) ?? 0) + 1);
      expect(inWork.get(key)).toBe(1);
      most = Math.max(
        most,
        [...inWork.values()].reduce((sum, count) => sum + count, 0),
      );
      await new Promise((resolve) => setTimeout(resolve, 100));
      inWork.set(key, 0);
      return undefined;
    };
    const { controller, results } = start(reconcile, 3);
    for (let round = 0; round < 5; round += 1) {
      for (const key of ['a', 'b', 'c', 'd', 'e']) controller.enqueue(key);
      await vi.advanceTimersByTimeAsync(30);
    }
    await vi.advanceTimersByTimeAsync(5000);
    expect(most).toBe(3);
    expect(await results('error')).toBe(0);
    expect(await results('success')).toBeGreaterThan(5);
  });

  it('a controller aborts a reconcile that exceeds its time limit', async () => {
    const reconcile: Reconcile = (_key, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    const { controller, count } = start(reconcile);
    controller.enqueue('a');
    await vi.advanceTimersByTimeAsync(5500);
    expect(await count('reconcile_timeouts_total')).toBe(1);
    expect(await count('reconcile_errors_total')).toBe(1);
  });

  it('a controller that stops waits for the work in progress, then aborts it', async () => {
    const seen: string[] = [];
    const reconcile: Reconcile = async (key, { signal }) => {
      if (key === 'slow') await new Promise((resolve) => signal.addEventListener('abort', resolve));
      else await new Promise((resolve) => setTimeout(resolve, 500));
      seen.push(key);
      return undefined;
    };
    const patient = start(reconcile);
    patient.controller.enqueue('quick');
    patient.controller.enqueue('never begun');
    await vi.advanceTimersByTimeAsync(1);
    const stopped = patient.controller.stop(2000);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await stopped).toBe(true);
    const hard = start(reconcile);
    hard.controller.enqueue('slow');
    await vi.advanceTimersByTimeAsync(1);
    const aborted = hard.controller.stop(2000);
    await vi.advanceTimersByTimeAsync(2000);
    expect(await aborted).toBe(true);
    expect(seen).toEqual(['quick', 'slow']);
  });
});

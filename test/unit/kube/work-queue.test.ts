// WorkQueue with a fake clock: its promises for a key, for any sequence of calls.

import fc from 'fast-check';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TokenBucket } from '../../../src/kube/backoff.ts';
import { Controller } from '../../../src/kube/controller.ts';
import { createKubeMetrics } from '../../../src/kube/kube-metrics.ts';
import { WorkQueue } from '../../../src/kube/work-queue.ts';

const exact = { baseMs: 1000, maxMs: 60_000, random: () => 0.5 };
const newQueue = () => new WorkQueue({ name: 'test', backoff: exact });

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => vi.useRealTimers());

/** Keys that are ready now, in order, each taken and done. */
async function drain(queue: WorkQueue): Promise<string[]> {
  const keys: string[] = [];
  while (queue.depth > 0) {
    const key = (await queue.take()) ?? '';
    keys.push(key);
    queue.done(key);
  }
  return keys;
}

describe('a work queue', () => {
  it('a work queue gives each key once, in the order of arrival', async () => {
    const queue = newQueue();
    for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key);
    expect(await drain(queue)).toEqual(['a', 'b', 'c']);
  });

  it('a delay that is no number is refused, and a reconcile that returns one is retried with backoff', async () => {
    const queue = newQueue();
    expect(() => queue.addAfter('a', Number.NaN)).toThrow(RangeError);
    expect([queue.depth, queue.waiting]).toEqual([0, 0]);
    const tries: number[] = [];
    const reconcile = async (_key: string, { failures }: { failures: number }) => {
      tries.push(failures);
      return { requeueAfterMs: Number.NaN };
    };
    const controller = new Controller({ name: 'test', reconcile, queue });
    controller.enqueue('a');
    controller.start();
    await vi.advanceTimersByTimeAsync(4000);
    expect(tries).toEqual([0, 1, 2]);
    await controller.stop();
  });

  it('a key that is added while in work is given again, after it is done', async () => {
    const queue = newQueue();
    queue.add('a');
    await queue.take();
    queue.add('a');
    queue.add('a');
    expect(queue.depth).toBe(0);
    queue.done('a');
    expect(await drain(queue)).toEqual(['a']);
  });

  it('a low key is given when no normal key is ready; of two priorities the higher counts', async () => {
    const queue = newQueue();
    queue.add('low', 'low');
    queue.add('raised', 'low');
    queue.add('normal');
    queue.add('raised');
    queue.add('normal', 'low');
    expect(await drain(queue)).toEqual(['normal', 'raised', 'low']);
  });

  it('groups have turns, and the many keys of one keep no other waiting', async () => {
    const queue = new WorkQueue({ name: 'test', groupOf: (key) => key.slice(0, 1) });
    for (const key of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'b2']) queue.add(key);
    expect(await drain(queue)).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('low keys wait, and do not starve while there is always a normal one', async () => {
    const queue = newQueue();
    for (let i = 0; i < 3; i += 1) queue.add(`low ${i}`, 'low');
    const given: string[] = [];
    for (let i = 0; i < 30; i += 1) {
      queue.add(`normal ${i}`);
      const key = (await queue.take()) ?? '';
      given.push(key);
      queue.done(key);
    }
    expect(given.filter((key) => key.startsWith('low'))).toEqual(['low 0', 'low 1', 'low 2']);
    expect(given.slice(0, 7).join()).not.toContain('low');
  });

  it('a delayed key is given when its delay ends; of two delays the shorter counts', async () => {
    const queue = newQueue();
    queue.addAfter('a', 5000);
    queue.addAfter('b', 3000);
    queue.addAfter('a', 1000);
    queue.addAfter('b', 9000);
    vi.advanceTimersByTime(999);
    expect(queue.depth).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await drain(queue)).toEqual(['a']);
    vi.advanceTimersByTime(2000);
    expect(await drain(queue)).toEqual(['b']);
    vi.advanceTimersByTime(100_000);
    expect(queue.depth).toBe(0);
    expect(queue.waiting).toBe(0);
  });

  it('a waiting key is given at once when it is added', async () => {
    const queue = newQueue();
    queue.addAfter('a', 60_000);
    queue.add('a');
    expect(await drain(queue)).toEqual(['a']);
    vi.advanceTimersByTime(60_000);
    expect(queue.depth).toBe(0);
  });

  it('a delay longer than the longest timer of Node ends at its due time', async () => {
    const queue = newQueue();
    queue.addAfter('a', 2 ** 31 + 1000);
    vi.advanceTimersByTime(2 ** 31 + 999);
    expect(queue.depth).toBe(0);
    vi.advanceTimersByTime(1);
    expect(await drain(queue)).toEqual(['a']);
  });

  it('the delay of a failing key doubles up to a minute, and forget resets it', () => {
    const queue = newQueue();
    const delays = Array.from({ length: 8 }, () => queue.addRateLimited('a'));
    expect(delays).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    expect(queue.addRateLimited('b')).toBe(1000);
    expect(queue.addRateLimited('c', 30_000)).toBe(30_000);
    queue.forget('a');
    expect(queue.addRateLimited('a')).toBe(1000);
  });

  it('the retry bucket bounds the retries of the keys of a group together', () => {
    const newRetryBucket = () => new TokenBucket(10, 5);
    const queue = new WorkQueue({ name: 'test', backoff: exact, newRetryBucket });
    const delays = Array.from({ length: 105 }, (_, i) => queue.addRateLimited(`key ${i}`));
    expect(delays.slice(0, 15)).toEqual(Array(15).fill(1000));
    expect(delays.at(-1)).toBe(10_000);
  });

  it('the failing objects of one namespace delay the retries of no other namespace', () => {
    const { queue } = new Controller({ name: 'test', reconcile: async () => undefined });
    const delays = Array.from({ length: 600 }, (_, i) => queue.addRateLimited(`failing/${i}`));
    expect(delays.at(-1)).toBeGreaterThan(45_000);
    for (let i = 0; i < 3; i += 1) expect(queue.addRateLimited('other/one')).toBeLessThan(5000);
    // The bound of the namespace stands, also after its quiet neighbours are forgotten.
    vi.advanceTimersByTime(10_000);
    queue.addRateLimited('third/one');
    expect(queue.addRateLimited('failing/again')).toBeGreaterThan(35_000);
  });

  it('a waiting take gets the next key, or undefined when the queue shuts down', async () => {
    const queue = newQueue();
    const first = queue.take();
    const second = queue.take();
    queue.add('a');
    expect(await first).toBe('a');
    queue.shutDown();
    expect(await second).toBeUndefined();
    queue.add('b');
    expect(await queue.take()).toBeUndefined();
  });

  it('a work queue reports its metrics under the names that dashboards expect', async () => {
    const registry = new Registry();
    const queue = new WorkQueue({ name: 'test', metrics: createKubeMetrics(registry) });
    queue.add('a');
    queue.add('b');
    await queue.take();
    vi.advanceTimersByTime(2000);
    const text = await registry.metrics();
    expect(text).toContain('workqueue_depth{name="test",controller="test"} 1');
    expect(text).toContain('workqueue_adds_total{name="test",controller="test"} 2');
    expect(text).toContain('workqueue_retries_total{name="test",controller="test"} 0');
    expect(text).toContain('workqueue_longest_running_processor_seconds{name="test",controller="test"} 2');
  });
});

type Call =
  | { type: 'add'; key: string; low: boolean }
  | { type: 'after'; key: string; delayMs: number }
  | { type: 'fail'; key: string }
  | { type: 'take' }
  | { type: 'done' }
  | { type: 'wait'; ms: number };

const keys = fc.constantFrom('a', 'b', 'c', 'd');
const calls: fc.Arbitrary<Call> = fc.oneof(
  fc.record({ type: fc.constant('add' as const), key: keys, low: fc.boolean() }),
  fc.record({ type: fc.constant('after' as const), key: keys, delayMs: fc.integer({ min: 0, max: 5000 }) }),
  fc.record({ type: fc.constant('fail' as const), key: keys }),
  fc.record({ type: fc.constant('take' as const) }),
  fc.record({ type: fc.constant('done' as const) }),
  fc.record({ type: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 4000 }) }),
);

/** The simplest queue with the same promises: per key, when it is due. */
class Model {
  readonly due = new Map<string, number>();
  readonly working: string[] = [];
  nowMs = 0;

  add(key: string, dueMs: number): void {
    this.due.set(key, Math.min(dueMs, this.due.get(key) ?? dueMs));
  }

  ready(): string[] {
    return [...this.due]
      .filter(([key, at]) => at <= this.nowMs && !this.working.includes(key))
      .map(([key]) => key);
  }
}

describe('for any sequence of calls, a work queue', () => {
  const play = async (queue: WorkQueue, model: Model, call: Call): Promise<void> => {
    switch (call.type) {
      case 'add':
        queue.add(call.key, call.low ? 'low' : 'normal');
        model.add(call.key, model.nowMs);
        break;
      case 'after':
        queue.addAfter(call.key, call.delayMs);
        model.add(call.key, model.nowMs + call.delayMs);
        break;
      case 'fail':
        model.add(call.key, model.nowMs + queue.addRateLimited(call.key));
        break;
      case 'take': {
        if (queue.depth === 0) return;
        const key = (await queue.take()) ?? '';
        // Never a key that is not due, never one that is in work.
        expect(model.ready()).toContain(key);
        model.due.delete(key);
        model.working.push(key);
        break;
      }
      case 'done': {
        const key = model.working.shift();
        if (key !== undefined) queue.done(key);
        break;
      }
      case 'wait':
        vi.advanceTimersByTime(call.ms);
        model.nowMs += call.ms;
        break;
    }
    expect(queue.depth).toBe(model.ready().length);
  };

  it('the ready keys are exactly those that are due and not in work, and no key is lost', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(calls, { maxLength: 60 }), async (sequence) => {
        const queue = new WorkQueue({
          name: 'test',
          backoff: exact,
          newRetryBucket: () => new TokenBucket(1000, 1000),
        });
        const model = new Model();
        for (const call of sequence) await play(queue, model, call);
        for (const key of model.working.splice(0)) queue.done(key);
        await play(queue, model, { type: 'wait', ms: 120_000 });
        const drained = await drain(queue);
        expect(new Set(drained)).toEqual(new Set(model.due.keys()));
        expect(drained).toHaveLength(model.due.size);
        queue.shutDown();
      }),
      { numRuns: 300 },
    );
  });
});

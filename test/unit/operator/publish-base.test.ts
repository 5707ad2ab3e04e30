import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PublishBase } from '../../../src/operator/known/publish-base.ts';

const OLD = 'http://old.example.com';
const NEW = 'https://new.example.com/beats';

let changes: number;
let base: PublishBase;
beforeEach(() => {
  vi.useFakeTimers();
  changes = 0;
  base = new PublishBase(() => {
    changes += 1;
  }, 5_000);
});
afterEach(() => {
  base.stop();
  vi.useRealTimers();
});

it('an address counts as right until an answer has named the base', () => {
  expect(base.isOf(`${OLD}/ping/1`)).toBe(true);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), base.isOf(`${NEW}/ping/1`), changes]).toEqual([false, true, 0]);
});

it('another base counts, and is told once, when it has lasted', () => {
  base.note(OLD);
  base.note(NEW);
  vi.advanceTimersByTime(3_000);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), changes]).toEqual([true, 0]);
  vi.advanceTimersByTime(2_000);
  expect([base.isOf(`${OLD}/ping/1`), base.isOf(`${NEW}/ping/1`), changes]).toEqual([false, true, 1]);
  base.note(NEW);
  vi.advanceTimersByTime(10_000);
  expect(changes).toBe(1);
});

it('replicas with two bases that answer in turns change nothing', () => {
  base.note(OLD);
  for (let answer = 0; answer < 20; answer += 1) {
    base.note(answer % 2 ? OLD : NEW);
    vi.advanceTimersByTime(2_000);
  }
  expect([base.isOf(`${OLD}/ping/1`), changes]).toEqual([true, 0]);
});

it('a base that only begins alike is another one', () => {
  base.note('https://beats.example.com');
  expect(base.isOf('https://beats.example.com.evil.example/ping/1')).toBe(false);
});

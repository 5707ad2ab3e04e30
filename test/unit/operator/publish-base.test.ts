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
  });
});
afterEach(() => {
  vi.useRealTimers();
});

it('an address counts as right until an answer has named the base', () => {
  expect(base.isOf(`${OLD}/ping/1`)).toBe(true);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), base.isOf(`${NEW}/ping/1`), changes]).toEqual([false, true, 0]);
});

it('another base counts, and is told once, when a second answer names it five seconds after the first', () => {
  base.note(OLD);
  base.note(NEW);
  vi.advanceTimersByTime(4_999);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), base.isInDoubt, changes]).toEqual([true, true, 0]);
  vi.advanceTimersByTime(1);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), base.isOf(`${NEW}/ping/1`)]).toEqual([false, true]);
  expect([base.isInDoubt, changes]).toEqual([false, 1]);
  base.note(NEW);
  vi.advanceTimersByTime(10_000);
  base.note(NEW);
  expect(changes).toBe(1);
});

it('a base that one answer has named counts for nothing, however long no other answer comes', () => {
  base.note(OLD);
  base.note(NEW);
  vi.advanceTimersByTime(3_600_000);
  expect([base.isOf(`${OLD}/ping/1`), changes]).toEqual([true, 0]);
});

it('an answer with the present base between two with another one begins the wait anew', () => {
  base.note(OLD);
  base.note(NEW);
  vi.advanceTimersByTime(4_000);
  base.note(OLD);
  expect(base.isInDoubt).toBe(false);
  base.note(NEW);
  vi.advanceTimersByTime(4_000);
  base.note(NEW);
  expect([base.isOf(`${OLD}/ping/1`), changes]).toEqual([true, 0]);
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

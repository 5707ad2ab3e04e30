// What one process remembers of the beats that it could not take.
import { afterEach, expect, it, vi } from 'vitest';
import { newUuid } from '../../../src/domain/id.ts';
import { OpenBeats } from '../../../src/ingest/open-beats.ts';

afterEach(() => vi.useRealTimers());

function refuseAll(openBeats: OpenBeats, count: number): void {
  for (let beat = 0; beat < count; beat += 1) openBeats.refuse(openBeats.begin(newUuid()));
}

it('the oldest beat is the first that is neither committed nor answered nor excused', () => {
  const openBeats = new OpenBeats();
  expect(openBeats.oldestAt()).toBeUndefined();
  const [committed, refused, excused] = [newUuid(), newUuid(), newUuid()].map((one) => openBeats.begin(one));
  if (!committed || !refused || !excused) throw new Error('three beats arrived');
  expect(openBeats.oldestAt()).toBe(committed.arrivedAt);
  openBeats.refuse(excused);
  openBeats.end(committed);
  expect(openBeats.oldestAt()).toBe(refused.arrivedAt);
  openBeats.refuse(refused);
  expect(openBeats.oldestAt()).toBe(refused.arrivedAt);
  const excuses = openBeats.take();
  expect(openBeats.oldestAt()).toBe(refused.arrivedAt);
  for (const excuse of excuses) if (excuse.address === refused.address) openBeats.discharge(excuse);
  expect(openBeats.oldestAt()).toBe(excused.arrivedAt);
  openBeats.giveBack();
  for (const excuse of openBeats.take()) openBeats.discharge(excuse);
  expect(openBeats.oldestAt()).toBeUndefined();
});

it('a beat that moves no deadline is never the oldest and needs no excuse', () => {
  const openBeats = new OpenBeats();
  const beat = openBeats.begin(newUuid(), false);
  expect(openBeats.oldestAt()).toBeUndefined();
  openBeats.refuse(beat);
  expect(openBeats.excuses).toBe(0);
});

it('refusals of one address are one excuse with the first arrival, the newest one and their count', () => {
  const openBeats = new OpenBeats();
  const address = newUuid();
  const [first, second, third] = [0, 1, 2].map(() => openBeats.begin(address));
  if (!first || !second || !third) throw new Error('three beats arrived');
  openBeats.refuse(second);
  openBeats.take();
  openBeats.refuse(third);
  openBeats.refuse(first);
  openBeats.giveBack();
  expect(openBeats.take()).toEqual([
    { address, firstAt: first.arrivedAt, newestAt: third.arrivedAt, beats: 3 },
  ]);
});

it('200,000 refused addresses are kept, and the span of those past them is lost', () => {
  const openBeats = new OpenBeats();
  refuseAll(openBeats, 200_000);
  expect(openBeats.excuses).toBe(200_000);
  expect(openBeats.lostSpan()).toBeUndefined();
  const first = openBeats.begin(newUuid());
  const last = openBeats.begin(newUuid());
  openBeats.refuse(last);
  openBeats.refuse(first);
  expect(openBeats.lostSpan()).toEqual({ fromAt: first.arrivedAt, toAt: last.arrivedAt });
  expect(openBeats.excuses).toBe(200_000);
});

it('an address that is known already is excused past the bound too', () => {
  const openBeats = new OpenBeats(1);
  const address = newUuid();
  openBeats.refuse(openBeats.begin(address));
  openBeats.refuse(openBeats.begin(address));
  expect(openBeats.lostSpan()).toBeUndefined();
  expect(openBeats.take()).toMatchObject([{ address, beats: 2 }]);
});

it('a lost span stays open until it is settled, and what was lost meanwhile stays after that', () => {
  const openBeats = new OpenBeats();
  openBeats.lose(100, 200);
  expect(openBeats.oldestAt()).toBe(100);
  const span = openBeats.lostSpan();
  if (!span) throw new Error('no span');
  openBeats.lose(300);
  openBeats.settleLost(span);
  expect(openBeats.lostSpan()).toEqual({ fromAt: 200, toAt: 300 });
  openBeats.lose(50);
  openBeats.settleLost({ fromAt: 200, toAt: 300 });
  expect(openBeats.lostSpan()).toEqual({ fromAt: 50, toAt: 300 });
  openBeats.settleLost({ fromAt: 50, toAt: 300 });
  expect(openBeats.oldestAt()).toBeUndefined();
});

it('a body that is not read a second after its arrival is excused once, whatever becomes of the beat', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const openBeats = new OpenBeats();
  const slow = openBeats.begin(newUuid());
  const waiting = openBeats.begin(newUuid());
  waiting.isReading = false;
  vi.advanceTimersByTime(999);
  openBeats.refuseSlowBodies();
  expect(openBeats.excuses).toBe(0);
  vi.advanceTimersByTime(2);
  openBeats.refuseSlowBodies();
  openBeats.refuse(slow);
  openBeats.end(waiting);
  openBeats.end(slow);
  expect(openBeats.take()).toMatchObject([{ address: slow.address, beats: 1 }]);
});

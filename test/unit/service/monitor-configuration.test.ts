// What a change of the configuration does to deadline and open runs (docs/contract/monitors.md).
import { expect, it } from 'vitest';
import { startClock } from '../../../src/domain/deadline.ts';
import { refit } from '../../../src/service/monitors/monitor-configuration.ts';
import { HOUR, liveOf, MINUTE, NOW, timingOf } from '../domain/timing.ts';

const before = timingOf({ intervalMs: HOUR, maxRuntimeMs: HOUR });
const started = startClock(before, liveOf({ openIncidents: 0 }), NOW);
const running = { ...started, openRuns: [{ startedMs: NOW - 2 * HOUR, dueMs: NOW + MINUTE }] };
const nowMs = NOW + 30_000;

it('a change of the interval leaves the limits of open runs as they are', () => {
  const timing = { before, after: { ...before, intervalMs: 2 * HOUR } };
  const live = refit(timing, { deadline: true, runs: false }, { live: running, isMissed: false, nowMs });
  expect(live.openRuns).toEqual(running.openRuns);
  expect(live.deadlineMs).toBe(NOW + 2 * HOUR + before.graceMs);
});

it('a change of the longest run leaves the deadline as it is', () => {
  const timing = { before, after: { ...before, maxRuntimeMs: 3 * HOUR } };
  const live = refit(timing, { deadline: false, runs: true }, { live: running, isMissed: false, nowMs });
  expect(live.openRuns).toEqual([{ startedMs: NOW - 2 * HOUR, dueMs: NOW + HOUR }]);
  expect(live.deadlineMs).toBe(running.deadlineMs);
});

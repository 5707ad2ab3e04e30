// What the sweep of deadlines writes of a live row is all that time can change of it.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type LiveState, newLiveState } from '../../../src/domain/monitor.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { LIVE_STATE, WOKEN_STATE } from '../../../src/store/monitors/live.ts';
import { anyTiming, NOW, SECOND } from '../domain/timing.ts';

const moment = fc.integer({ min: -20_000, max: 20_000 }).map((seconds) => NOW + seconds * SECOND);
const perhaps = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

const anyLive: fc.Arbitrary<LiveState> = fc
  .record({
    wakeMs: moment,
    deadlineMs: perhaps(moment),
    lastSequence: fc.nat(100),
    firstBeatMs: perhaps(moment),
    lastBeatMs: perhaps(moment),
    lastSuccessMs: perhaps(moment),
    lastDurationMs: perhaps(fc.nat(100_000)),
    anchorMs: perhaps(moment),
    missedCount: fc.nat(9),
    openRuns: fc.array(
      fc.record({ runId: fc.constant(undefined), startedMs: moment, dueMs: perhaps(moment) }),
    ),
    gaps: fc.array(fc.nat(100_000)),
    gapBroken: fc.boolean(),
    cadenceMs: perhaps(fc.integer({ min: 60_000, max: 1_000_000 })),
    tokens: perhaps(fc.nat(600)),
    tokensMs: perhaps(moment),
    unmovedMs: perhaps(moment),
    excused: perhaps(fc.tuple(moment, fc.nat(9))),
  })
  .map(({ excused, ...live }) => ({
    ...newLiveState(),
    ...live,
    ...(excused && { excusedFromMs: excused[0], excusedMs: excused[0], excusedBeats: excused[1] }),
  }));

it('waking a monitor changes nothing of its live row but the columns that the sweep writes', () => {
  const kept = Object.keys(LIVE_STATE).filter((key) => !(key in WOKEN_STATE)) as (keyof LiveState)[];
  const outages = fc.array(fc.tuple(moment, fc.nat(3_600)), { maxLength: 2 });
  fc.assert(
    fc.property(anyTiming, anyLive, moment, outages, (timing, live, nowMs, spans) => {
      const silences = spans
        .map(([fromMs, seconds]) => ({ fromMs, toMs: fromMs + seconds * SECOND }))
        .toSorted((a, b) => a.fromMs - b.fromMs);
      const woken = wakeMonitor(timing, live, [], { nowMs, horizonMs: nowMs, outages: silences }).live;
      for (const key of kept) expect(woken[key], key).toEqual(live[key]);
    }),
    { numRuns: 2_000 },
  );
});

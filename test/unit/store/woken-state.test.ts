// What the sweep of deadlines writes of a live row is all that time can change of it.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { INCIDENT_KINDS, type Incident, openIncident } from '../../../src/domain/incident.ts';
import { type LiveState, newLiveState } from '../../../src/domain/monitor.ts';
import { wakeMonitor, wakeSuspended } from '../../../src/domain/wake.ts';
import { LIVE_STATE, WOKEN_STATE } from '../../../src/store/monitors/live.ts';
import { anyRecurring, anyTiming, NOW, SECOND } from '../domain/timing.ts';

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
    restsSinceMs: perhaps(moment),
    escalatesMs: perhaps(moment),
    excused: perhaps(fc.tuple(moment, fc.nat(9))),
  })
  .map(({ excused, ...live }) => ({
    ...newLiveState(),
    ...live,
    ...(excused && { excusedFromMs: excused[0], excusedMs: excused[0], excusedBeats: excused[1] }),
  }));

/** At most one of a kind, as Postgres holds them. */
const openIncidents: fc.Arbitrary<Incident[]> = fc.uniqueArray(
  fc
    .record({
      kind: fc.constantFrom(...INCIDENT_KINDS),
      openedMs: moment,
      state: fc.constantFrom('open' as const, 'recovering' as const),
    })
    .map(({ kind, openedMs, state }) => ({
      ...openIncident({ kind, severity: 'critical', summary: 'It is open.' }, openedMs).incident,
      state,
    })),
  { selector: ({ kind }) => kind },
);

it('waking a monitor changes nothing of its live row but the columns that the sweep writes', () => {
  const kept = Object.keys(LIVE_STATE).filter((key) => !(key in WOKEN_STATE)) as (keyof LiveState)[];
  const outages = fc.array(fc.tuple(moment, fc.nat(3_600)), { maxLength: 2 });
  fc.assert(
    fc.property(
      fc.oneof(anyTiming, anyRecurring),
      anyLive,
      openIncidents,
      moment,
      outages,
      (timing, row, incidents, nowMs, spans) => {
        const live = { ...row, openIncidents: incidents.length };
        const silences = spans
          .map(([fromMs, seconds]) => ({ fromMs, toMs: fromMs + seconds * SECOND }))
          .toSorted((a, b) => a.fromMs - b.fromMs);
        const at = { nowMs, horizonMs: nowMs, outages: silences };
        const { live: woken } = wakeMonitor(timing, live, incidents, at);
        const suspended = wakeSuspended(timing, live, nowMs);
        for (const key of kept) {
          expect(woken[key], key).toEqual(live[key]);
          expect(suspended[key], key).toEqual(live[key]);
        }
      },
    ),
    { numRuns: 2_000 },
  );
});

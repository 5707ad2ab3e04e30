// Random lives of a chain of monitors that depend on each other, on a real database. What was sent is compared with what the
// moments of all incidents say should have been: nothing of the code that decides is asked.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { History } from '../api/explain-history.ts';
import {
  type DependencyFixture,
  type IncidentSeen,
  MINUTE,
  openDependencyFixture,
} from './dependency-fixture.ts';

let fixture: DependencyFixture;
beforeAll(async () => {
  fixture = await openDependencyFixture();
});
afterAll(() => fixture?.close());

/** Interval and grace of each of them. */
const PATIENCE_MS = 6 * MINUTE;
const HOLD_MS = 30_000;
/** The sweeper looks each ten seconds here, and a suppressed incident asks each minute whether its cause has ended. */
const SLACK_MS = MINUTE + 20_000;

interface Step {
  who: 0 | 1 | 2;
  kind: 'success' | 'fail';
  minutes: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  who: fc.constantFrom(0, 1, 2),
  kind: fc.constantFrom('success', 'success', 'fail'),
  minutes: fc.constantFrom(0, 0.2, 0.6, 2, 5, 9),
});

/** `incident` was open at the moment. */
const isOpenAt = ({ openedMs, endedMs = Number.POSITIVE_INFINITY }: IncidentSeen, atMs: number) =>
  openedMs <= atMs && atMs < (endedMs ?? Number.POSITIVE_INFINITY);

it('each alert goes out while no cause is down, and none that should goes out too late or not at all', {
  timeout: 600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 16 }), async (steps) => {
      const first = await fixture.make();
      const second = await fixture.make({ dependsOn: [first.name.monitorId] });
      const third = await fixture.make({ dependsOn: [second.name.monitorId] });
      const chain: History[] = [first, second, third];
      for (const history of chain) await history.beat('success');
      for (const { who, kind, minutes } of steps) {
        await chain[who]?.beat(kind);
        await fixture.pass(minutes * MINUTE);
      }
      const untilMs = fixture.clock.nowMs;
      const seen = await Promise.all(chain.map((history) => fixture.incidentsOf(history)));
      for (const [place, incidents] of seen.entries()) {
        const causes = seen.slice(0, place).flat();
        for (const incident of incidents) judge(incident, causes, { place, untilMs });
      }
      // They are out of the way of the next life.
      for (const history of chain) await history.act('archive');
    }),
    { numRuns: 20 },
  );
});

function judge(
  incident: IncidentSeen,
  causes: readonly IncidentSeen[],
  { place, untilMs }: { place: number; untilMs: number },
): void {
  const { sent, openedMs } = incident;
  const endMs = incident.endedMs ?? untilMs;
  const opened = sent.find(({ event }) => event === 'incident.opened');
  const isOver = incident.endedMs !== null && incident.endedMs !== undefined;
  expect(sent.some(({ event }) => event === 'incident.recovered')).toBe(isOver && opened !== undefined);
  if (place === 0) {
    expect(opened?.atMs).toBe(openedMs);
    return;
  }
  if (opened) {
    expect(opened.atMs).toBeGreaterThanOrEqual(openedMs + HOLD_MS);
    expect(causes.filter((cause) => isOpenAt(cause, opened.atMs))).toEqual([]);
    expect(incident.suppressedBy).toBeNull();
  }
  // From when on nothing excuses the silence: its causes are well, and it has had its time since the last one that it met.
  const met = causes.filter((cause) => cause.openedMs < endMs && (cause.endedMs ?? untilMs) >= openedMs);
  const wellMs = met.reduce(
    (lastMs, cause) => Math.max(lastMs, (cause.endedMs ?? untilMs) + PATIENCE_MS),
    openedMs + HOLD_MS,
  );
  if (endMs > wellMs + SLACK_MS) expect(opened).toBeDefined();
  if (opened) expect(opened.atMs).toBeLessThanOrEqual(wellMs + SLACK_MS);
}

// Random lives of monitors of one operator, and of the nodes that it sees, on a real database. What was sent is compared with what
// the moments of incidents and causes say should have been: nothing of the code that decides is asked.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { History } from '../api/explain-history.ts';
import { type CauseFixture, node, openCauseFixture } from './cause-fixture.ts';
import { type IncidentSeen, MINUTE } from './dependency-fixture.ts';

let fixture: CauseFixture;
beforeAll(async () => {
  fixture = await openCauseFixture();
});
afterAll(() => fixture?.close());

const MONITORS = 4;
/** Interval and grace of each of them. */
const PATIENCE_MS = 6 * MINUTE;
const HOLD_MS = MINUTE;
/** A sweeper looks each ten seconds here, the operator gives a sign as often, and one that recovers is asked about each minute. */
const SLACK_MS = MINUTE + 30_000;

type Step =
  | { kind: 'success' | 'fail'; who: number; minutes: number }
  /** The node of each monitor; undefined: it is well. */
  | { kind: 'see'; nodes: (string | undefined)[]; minutes: number };

const minutes = fc.constantFrom(0, 0.2, 0.6, 2, 4, 7);
const who = fc.nat(MONITORS - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('success', 'fail'), who, minutes }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('see' as const),
      nodes: fc.array(fc.constantFrom(undefined, 'worker-1', 'worker-1', 'worker-2'), {
        minLength: MONITORS,
        maxLength: MONITORS,
      }),
      minutes,
    }),
  },
);

/** One node from the first monitor that it concerns to the last one. */
interface CauseSpan {
  object: string;
  fromMs: number;
  toMs?: number;
}
/** The cause of a monitor at a time; undefined: none. */
interface Phase {
  fromMs: number;
  cause: CauseSpan | undefined;
}

/** What the operator has said, as the test knows it. */
class Model {
  readonly #now = new Map<string, CauseSpan>();
  readonly phases: Phase[][] = Array.from({ length: MONITORS }, () => []);

  see(nodes: readonly (string | undefined)[], atMs: number): void {
    for (const [object, span] of this.#now) {
      if (nodes.includes(object)) continue;
      span.toMs = atMs;
      this.#now.delete(object);
    }
    for (const [place, object] of nodes.entries()) {
      if (object !== undefined && !this.#now.has(object)) this.#now.set(object, { object, fromMs: atMs });
      const cause = object === undefined ? undefined : this.#now.get(object);
      if (this.phases[place]?.at(-1)?.cause !== cause) this.phases[place]?.push({ fromMs: atMs, cause });
    }
  }

  at(place: number, atMs: number): CauseSpan | undefined {
    return this.phases[place]?.findLast(({ fromMs }) => fromMs <= atMs)?.cause;
  }

  /** The last moment before `untilMs` at which the monitor had a cause. */
  lastMs(place: number, untilMs: number): number | undefined {
    const phases = this.phases[place] ?? [];
    const ends = phases.flatMap(({ cause }, index) =>
      cause === undefined ? [] : Math.min(untilMs, phases[index + 1]?.fromMs ?? untilMs),
    );
    const begun = phases.filter(({ fromMs, cause }) => cause !== undefined && fromMs < untilMs).length;
    return ends.slice(0, begun).at(-1);
  }
}

interface Sent {
  place: number;
  atMs: number;
  object?: string;
}

it('each cause has one alert at the endpoint, and no dead job stays untold when its cause is over', {
  timeout: 600_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const histories: History[] = [];
      for (let place = 0; place < MONITORS; place += 1) histories.push(await fixture.makeBeaten());
      const model = new Model();
      const say = async (nodes: readonly (string | undefined)[]) => {
        model.see(nodes, fixture.clock.nowMs);
        const objects = [...new Set(nodes.flatMap((object) => object ?? []))];
        await fixture.see(
          objects.map((object) =>
            node(
              object,
              histories.filter((_, place) => nodes[place] === object),
            ),
          ),
        );
      };
      for (const one of steps) {
        if (one.kind === 'see') await say(one.nodes);
        else await histories[one.who]?.beat(one.kind);
        await fixture.pass(one.minutes * MINUTE);
      }
      const untilMs = fixture.clock.nowMs;
      const seen = await Promise.all(histories.map((history) => fixture.incidentsOf(history)));
      const sent: Sent[] = [];
      const silenced: CauseSpan[] = [];
      for (const [place, incidents] of seen.entries()) {
        for (const incident of incidents) {
          sent.push(...judge(incident, model, { place, untilMs }));
          silenced.push(...silencedBy(incident, model, { place, untilMs }));
        }
      }
      const named = judgeNamed(sent, model);
      // Whoever is silent is so because somebody else was told of the cause.
      for (const span of silenced) expect(named).toContain(span);
      for (const history of histories) await history.act('archive');
      await fixture.see([]);
    }),
    { numRuns: 25 },
  );
});

/** Returns the opening that was sent, if one was. */
function judge(
  incident: IncidentSeen,
  model: Model,
  { place, untilMs }: { place: number; untilMs: number },
): Sent[] {
  const { sent, openedMs, suppressedBy } = incident;
  const isOver = incident.endedMs !== null && incident.endedMs !== undefined;
  const endMs = incident.endedMs ?? untilMs;
  const opened = sent.find(({ event }) => event === 'incident.opened');
  expect(sent.filter(({ event }) => event === 'incident.opened').length).toBeLessThanOrEqual(1);
  expect(sent.some(({ event }) => event === 'incident.recovered')).toBe(isOver && opened !== undefined);
  // From when on nothing excuses the silence: it has no cause, and has had its time since the last one.
  const lastMs = model.lastMs(place, endMs);
  const wellMs = Math.max(openedMs + HOLD_MS, (lastMs ?? 0) + PATIENCE_MS);
  const free = lastMs === undefined || lastMs < openedMs - HOLD_MS ? openedMs + HOLD_MS : wellMs;
  if (endMs > free + SLACK_MS) expect(opened).toBeDefined();
  if (!opened) {
    // It was silent for one of two reasons: nobody had decided, or another one has spoken for its cause.
    if (endMs > openedMs + HOLD_MS + SLACK_MS && suppressedBy === null) expect(isOver).toBe(true);
    return [];
  }
  expect(opened.atMs).toBeGreaterThanOrEqual(openedMs + HOLD_MS);
  expect(suppressedBy).toBeNull();
  const { data } = JSON.parse(opened.body);
  // An alert without a cause goes out where there is none, and not in the time that is given after one.
  if (!data.cause) {
    expect(model.at(place, opened.atMs)).toBeUndefined();
    const before = model.lastMs(place, opened.atMs);
    if (before !== undefined && before >= openedMs - HOLD_MS)
      expect(opened.atMs).toBeGreaterThanOrEqual(before + PATIENCE_MS);
  }
  return [{ place, atMs: opened.atMs, object: data.cause?.object }];
}

/** The cause by which it was silent, where that went on from before it opened until it must have been decided about. */
function silencedBy(
  { sent, openedMs, endedMs }: IncidentSeen,
  model: Model,
  { place, untilMs }: { place: number; untilMs: number },
): CauseSpan[] {
  const decidedMs = openedMs + HOLD_MS + SLACK_MS;
  if (sent.some(({ event }) => event === 'incident.opened') || (endedMs ?? untilMs) <= decidedMs) return [];
  const before = model.at(place, openedMs);
  const isTheSame = !model.phases[place]?.some(({ fromMs }) => fromMs > openedMs && fromMs <= decidedMs);
  return before && isTheSame ? [before] : [];
}

/** The spans that alerts name. Of none two monitors speak. */
function judgeNamed(sent: readonly Sent[], model: Model): Set<CauseSpan> {
  const spans = new Map<CauseSpan, number>();
  for (const { place, atMs, object } of sent) {
    if (object === undefined) continue;
    const phases = model.phases[place]?.filter(({ fromMs }) => fromMs <= atMs) ?? [];
    const span = phases.findLast(({ cause }) => cause !== undefined)?.cause;
    expect(span?.object).toBe(object);
    if (!span) continue;
    expect(spans.get(span) ?? place).toBe(place);
    spans.set(span, place);
  }
  return new Set(spans.keys());
}

// The incident state machine against a model: random sequences of what can happen to one incident.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  acknowledgeIncident,
  conformIncident,
  type Incident,
  openIncident,
  REALERT_MS,
  resolveIncident,
  SYSTEM_ACTOR,
  type Transition,
  violateIncident,
} from '../../../src/domain/incident.ts';
import { NOW, SECOND } from './timing.ts';

const opened = () =>
  openIncident({ kind: 'missed_deadline', severity: 'critical', summary: 'No beat.' }, NOW);
const by = { actor: SYSTEM_ACTOR };

type Step = { kind: 'violate' | 'conform' | 'resolve' | 'acknowledge'; afterMs: number };

const anyStep: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('violate', 'conform', 'conform', 'resolve', 'acknowledge'),
  afterMs: fc.integer({ min: 0, max: 400 }).map((seconds) => seconds * SECOND),
});

/** The rules of docs/contract/incidents.md in their simplest form. */
class Model {
  state: Incident['state'] = 'open';
  inARow = 0;
  isAcknowledged = false;
  alertedMs = NOW;
  events = ['incident.opened'];

  apply({ kind }: Step, nowMs: number, needed: number): void {
    if (this.state === 'recovered' || this.state === 'resolved') return;
    if (kind === 'resolve') {
      this.state = 'resolved';
      this.events.push('incident.resolved');
    } else if (kind === 'acknowledge') {
      if (!this.isAcknowledged) this.events.push('incident.acknowledged');
      this.isAcknowledged = true;
    } else if (kind === 'conform') {
      this.inARow += 1;
      this.state = this.inARow >= needed ? 'recovered' : 'recovering';
      if (this.state === 'recovered') this.events.push('incident.recovered');
    } else {
      this.inARow = 0;
      if (this.state !== 'recovering') return;
      this.state = 'open';
      if (nowMs - this.alertedMs < REALERT_MS) return;
      this.alertedMs = nowMs;
      this.events.push('incident.reopened');
    }
  }
}

function apply(incident: Incident, step: Step, nowMs: number, needed: number): Transition | undefined {
  const hasEnded = incident.state === 'recovered' || incident.state === 'resolved';
  if (step.kind === 'resolve') return resolveIncident(incident, by, nowMs);
  if (step.kind === 'acknowledge') return acknowledgeIncident(incident, by, nowMs);
  // Writers find only incidents that have not ended.
  if (hasEnded) return undefined;
  if (step.kind === 'violate') return violateIncident(incident, {}, nowMs);
  return conformIncident(incident, { sequence: 1, needed }, nowMs);
}

describe('an incident', () => {
  it('a reopened incident keeps its first deadline, and its timeline names the deadline that was missed again', () => {
    const first = NOW - SECOND;
    const again = NOW + 60 * SECOND;
    const { incident } = openIncident(
      { kind: 'missed_deadline', severity: 'critical', summary: '', deadlineMs: first },
      NOW,
    );
    const recovering = conformIncident(incident, { sequence: 1, needed: 2 }, NOW + SECOND).incident;
    const reopened = violateIncident(recovering, { deadlineMs: again }, again + SECOND);
    expect(reopened.incident).toMatchObject({ deadlineMs: first, violationCount: 2 });
    expect(reopened.entries).toMatchObject([
      { type: 'reopened', detail: { deadlineAt: new Date(again).toISOString() } },
    ]);
  });

  it('an incident agrees with the model after any sequence of steps', () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 30 }), fc.integer({ min: 1, max: 5 }), (steps, needed) => {
        const model = new Model();
        const first = opened();
        let { incident } = first;
        const events = [first.event?.type];
        let state: string | undefined = first.entries.at(-1)?.to;
        let nowMs = NOW;
        for (const step of steps) {
          nowMs += step.afterMs;
          const transition = apply(incident, step, nowMs, needed);
          model.apply(step, nowMs, needed);
          if (!transition) continue;
          incident = transition.incident;
          if (transition.event) events.push(transition.event.type);
          // The timeline has every change of state, without a gap.
          for (const entry of transition.entries) {
            if (entry.to === undefined) continue;
            expect(entry.from).toBe(state);
            state = entry.to;
          }
        }
        expect(incident.state).toBe(model.state);
        expect(state).toBe(model.state);
        expect(events).toEqual(model.events);
        expect(incident.acknowledgedMs !== undefined).toBe(model.isAcknowledged);
        expect(incident.recoveredMs !== undefined).toBe(model.state === 'recovered');
        expect(incident.resolvedMs !== undefined).toBe(model.state === 'resolved');
        expect(
          incident.recoveringMs !== undefined || model.state === 'open' || model.state === 'resolved',
        ).toBe(true);
      }),
    );
  });

  it('one success takes an incident through recovering to recovered with two timeline entries and one event', () => {
    const { incident, entries, event } = conformIncident(
      opened().incident,
      { sequence: 2, needed: 1 },
      NOW + SECOND,
    );
    expect(incident).toMatchObject({ state: 'recovered', recoveringMs: NOW + SECOND, lastSequence: 2 });
    expect(entries.map(({ type }) => type)).toEqual(['recovering', 'recovered']);
    expect(event).toEqual({ type: 'incident.recovered', previousState: 'open' });
  });
});

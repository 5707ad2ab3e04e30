// What people read on their phones, built from the events that are stored.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { buildIncidentEvent, buildTestEvent } from '../../../src/delivery/formats/event.ts';
import { ntfyMessage } from '../../../src/delivery/formats/ntfy.ts';
import { INCIDENT_EVENTS, type Incident, SEVERITIES } from '../../../src/domain/incident.ts';

const INCIDENT: Incident = {
  incidentId: 'inc_1',
  kind: 'missed_deadline',
  state: 'open',
  severity: 'critical',
  openedMs: 0,
  violationCount: 1,
  recoveryCount: 0,
  eventSequence: 1,
  summary: 'No beat came before the deadline.',
};

type Changes = { name?: string; projectName?: string; incident?: Partial<Incident>; nowMs?: number };

function messageOf(type: (typeof INCIDENT_EVENTS)[number], changes: Changes = {}) {
  const event = buildIncidentEvent({
    type,
    atMs: 0,
    organizationId: 'o',
    projectId: 'p',
    projectName: changes.projectName ?? 'Payments',
    incident: { ...INCIDENT, ...changes.incident },
    monitor: { monitorId: 'nightly-backup', name: changes.name ?? 'Nightly backup', labels: { secret: 'x' } },
    sequence: 1,
  });
  return JSON.parse(ntfyMessage('bk_topic', event, changes.nowMs ?? 0));
}

describe('a message for people', () => {
  it('a message says what happened, to what, and in which project', () => {
    expect(messageOf('incident.opened')).toEqual({
      topic: 'bk_topic',
      title: 'Incident: Nightly backup',
      message: 'No beat came before the deadline.\nProject Payments',
      priority: 5,
      tags: ['rotating_light'],
    });
  });

  it('a message of an event that is older than five minutes says when that was', () => {
    const messageAt = (nowMs: number) => messageOf('incident.opened', { nowMs }).message;
    expect(messageAt(300_000)).toBe('No beat came before the deadline.\nProject Payments');
    expect(messageAt(300_001)).toBe(
      'Of 1970-01-01 00:00 UTC\nNo beat came before the deadline.\nProject Payments',
    );
  });

  it('an incident that is over does not ring as loud as one that opens', () => {
    const over = messageOf('incident.recovered', { incident: { state: 'recovered', recoveredMs: 1 } });
    expect(over).toMatchObject({
      title: 'Recovered: Nightly backup',
      priority: 3,
      tags: ['white_check_mark'],
    });
    expect(
      SEVERITIES.map((severity) => messageOf('incident.reopened', { incident: { severity } }).priority),
    ).toEqual([3, 4, 5]);
  });

  it('an acknowledgement names who has it', () => {
    const acknowledgedBy = { kind: 'session', id: 'ada', display: 'Ada' } as const;
    const { message } = messageOf('incident.acknowledged', {
      incident: { acknowledgedMs: 1, acknowledgedBy },
    });
    expect(message).toContain('Acknowledged by Ada\n');
  });

  it('a test says which endpoint it is of', () => {
    const event = buildTestEvent({ atMs: 0, organizationId: 'o', projectId: 'p', endpointId: 'cb_1' });
    expect(JSON.parse(ntfyMessage('bk_topic', event, 0))).toEqual({
      topic: 'bk_topic',
      title: 'Test: callback endpoint',
      message: 'Alerts of the callback endpoint cb_1 arrive here.\nProject p',
      priority: 3,
      tags: ['bell'],
    });
  });

  it('whatever the words are, ntfy takes the message: 4,096 bytes of text, 8,192 of JSON', () => {
    const words = (maxLength: number) =>
      fc.oneof(
        fc.string({ unit: 'grapheme', maxLength }),
        fc.constantFrom('"', '\\', '☂', '👩‍👩‍👧‍👦').map((one) => one.repeat(maxLength)),
      );
    fc.assert(
      fc.property(
        fc.constantFrom(...INCIDENT_EVENTS),
        words(160),
        words(64),
        words(8_000),
        (type, name, projectName, summary) => {
          const message = messageOf(type, { name, projectName, incident: { summary } });
          expect(Buffer.byteLength(message.message)).toBeLessThanOrEqual(4_096);
          expect(Buffer.byteLength(JSON.stringify(message))).toBeLessThanOrEqual(8_192);
          expect(message.message.isWellFormed() && message.title.isWellFormed()).toBe(true);
          expect(message.title).not.toContain('\uFFFD');
        },
      ),
      { numRuns: 200 },
    );
  });
});

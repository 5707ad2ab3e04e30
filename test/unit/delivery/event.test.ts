// The event that the webhook of the contract sends: its fields, and what is cut of one that is too long.
// Holds: receiveAlert.
import { describe, expect, it } from 'vitest';
import {
  buildIncidentEvent,
  buildTestEvent,
  type IncidentEventInput,
  MAX_EVENT_BYTES,
} from '../../../src/delivery/formats/event.ts';

const AT_MS = Date.parse('2026-01-01T00:00:00.000Z');
const ID = '0192f0c1-2b3c-7d4e-8f50-616263646566';

function event(monitor: Partial<IncidentEventInput['monitor']> = {}, name = 'payments'): IncidentEventInput {
  return {
    type: 'incident.reopened',
    atMs: AT_MS,
    organizationId: ID,
    projectId: ID,
    projectName: name,
    incident: {
      incidentId: 'inc_1',
      kind: 'missed_deadline',
      state: 'open',
      severity: 'critical',
      openedMs: AT_MS,
      violationCount: 1,
      recoveryCount: 0,
      summary: 'No beat for 2 hours.',
      eventSequence: 2,
    },
    monitor: { monitorId: 'nightly', name: 'Nightly export', labels: { team: 'data' }, ...monitor },
    sequence: 3,
    previousState: 'recovering',
  };
}

/** More labels than a monitor may have, each as long as Kubernetes allows: prefix 253, name 63, value 63. */
const LABELS = Object.fromEntries(
  Array.from({ length: 48 }, (_, index) => [
    `${'p'.repeat(253)}/${'n'.repeat(60)}-${String(index).padStart(2, '0')}`,
    'v'.repeat(63),
  ]),
);

describe('the body of a webhook', () => {
  it('the body of an incident event has the fields of the contract and no others', () => {
    expect(JSON.parse(buildIncidentEvent(event()))).toEqual({
      type: 'incident.reopened',
      timestamp: '2026-01-01T00:00:00.000Z',
      data: {
        organizationId: ID,
        projectId: ID,
        projectName: 'payments',
        incident: {
          incidentId: 'inc_1',
          projectId: ID,
          monitorId: 'nightly',
          kind: 'missed_deadline',
          state: 'open',
          severity: 'critical',
          openedAt: '2026-01-01T00:00:00.000Z',
          violationCount: 1,
          summary: 'No beat for 2 hours.',
        },
        monitor: { monitorId: 'nightly', name: 'Nightly export', labels: { team: 'data' } },
        sequence: 3,
        previousState: 'recovering',
      },
    });
    const beats = { lastBeatMs: AT_MS - 60_000, nextDeadlineMs: AT_MS };
    expect(JSON.parse(buildIncidentEvent(event(beats))).data.monitor).toEqual({
      monitorId: 'nightly',
      name: 'Nightly export',
      labels: { team: 'data' },
      lastBeatAt: '2025-12-31T23:59:00.000Z',
      nextDeadlineAt: '2026-01-01T00:00:00.000Z',
    });
    const input = event();
    const withMore = { ...input, incident: { ...input.incident, secret: 'planted' } };
    expect(buildIncidentEvent(withMore)).not.toContain('planted');
  });

  it.each([
    ['open', 'No beat for 2 hours.'],
    ['recovering', 'No beat for 2 hours.'],
    ['recovered', 'Recovered: No beat for 2 hours.'],
    ['resolved', 'Resolved: No beat for 2 hours.'],
  ] as const)('the summary of an incident that is %s reads so', (state, summary) => {
    const input = event();
    input.incident.state = state;
    expect(JSON.parse(buildIncidentEvent(input)).data.incident.summary).toBe(summary);
  });

  it('the body of a test event names organization, project and endpoint', () => {
    const input = {
      atMs: AT_MS,
      organizationId: ID,
      projectId: ID,
      endpointId: 'cb_1',
    };
    expect(JSON.parse(buildTestEvent(input))).toEqual({
      type: 'callback.test',
      timestamp: '2026-01-01T00:00:00.000Z',
      data: { organizationId: ID, projectId: ID, endpointId: 'cb_1' },
    });
  });

  it('the object of a monitor is named without its UID; of one that is gone the summary says so last', () => {
    const declared = { kind: 'CronJob', namespace: 'payments', name: 'backup', uid: 'planted' } as const;
    const there = buildIncidentEvent(event({ origin: declared }));
    const shown = { kind: 'CronJob', namespace: 'payments', name: 'backup' };
    expect(JSON.parse(there).data.monitor.origin).toEqual(shown);
    expect(JSON.parse(there).data.incident.summary).toBe('No beat for 2 hours.');
    const gone = buildIncidentEvent(event({ origin: { ...declared, orphanedMs: AT_MS } }));
    const at = '2026-01-01T00:00:00.000Z';
    expect(JSON.parse(gone).data.monitor.origin).toEqual({ ...shown, orphanedAt: at });
    expect(JSON.parse(gone).data.incident.summary).toBe(
      `No beat for 2 hours. The CronJob payments/backup that declares it is gone from the cluster since ${at}: apply it again, or archive the monitor.`,
    );
    expect(there + gone).not.toContain('planted');
  });

  it.each([
    [1, '1 more monitor depends on it.'],
    [12, '12 more monitors depend on it.'],
    [1000, '1000 or more monitors depend on it.'],
  ])('says how many monitors depend on the one at fault: %i', (dependents, words) => {
    const { incident, monitor } = JSON.parse(buildIncidentEvent(event({ dependents }))).data;
    expect(monitor.dependents).toBe(dependents);
    expect(incident.summary).toBe(`No beat for 2 hours. ${words}`);
  });

  it.each([
    [1, 'node_not_ready', 'worker-3', 'Node worker-3 is not ready.'],
    [20, 'node_not_ready', 'worker-3', 'Node worker-3 is not ready; it concerns 20 monitors.'],
    [2, 'namespace_terminating', 'shop', 'Namespace shop is being deleted; it concerns 2 monitors.'],
    [2, 'image_cannot_be_pulled', 'shop/app:1', 'Image shop/app:1 cannot be pulled; it concerns 2 monitors.'],
    [2, 'quota_exceeded', 'shop/pods', 'Quota shop/pods has no room for a pod; it concerns 2 monitors.'],
  ] as const)('names the cause that the operator sees: %i by %s', (monitors, cause, object, words) => {
    const input = { ...event({}), cause: { causeId: 'secret', cause, object, monitors } };
    const { data } = JSON.parse(buildIncidentEvent(input));
    expect(data.cause).toEqual({ cause, object, monitors });
    expect(data.incident.summary).toBe(`No beat for 2 hours. ${words}`);
  });

  it('a body that is too long keeps its cause', () => {
    const object = '\u{1f600}'.repeat(512);
    const cause = { causeId: 'secret', cause: 'image_cannot_be_pulled', object, monitors: 9_999 } as const;
    const long = '☂'.repeat(6_000);
    const body = buildIncidentEvent({ ...event({ name: long, labels: LABELS }, long), cause });
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(MAX_EVENT_BYTES);
    expect(JSON.parse(body).data.cause.object).toBe(object);
  });

  it('a body that is too long keeps what says that the object is gone', () => {
    const long = '☂'.repeat(6_000);
    const origin = { kind: 'Monitor', namespace: 'n'.repeat(63), name: 'm'.repeat(253), uid: 'u' } as const;
    const input = event({ name: long, labels: LABELS, origin: { ...origin, orphanedMs: AT_MS } }, long);
    const body = buildIncidentEvent(input);
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(MAX_EVENT_BYTES);
    expect(JSON.parse(body).data.incident.summary).toContain(`${origin.name} that declares it is gone`);
  });

  it('a body that is too long leaves out the last labels first, and names them as truncated', () => {
    const body = buildIncidentEvent(event({ labels: LABELS }));
    const { data } = JSON.parse(body);
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(MAX_EVENT_BYTES);
    const kept = Object.keys(data.monitor.labels);
    expect(kept.length).toBeGreaterThan(10);
    expect(kept).toEqual(Object.keys(LABELS).slice(0, kept.length));
    expect(data.truncated).toEqual(['monitor.labels']);
    expect(data.monitor.name).toBe('Nightly export');
  });

  it('a body that is too long without labels shortens names, and never ids', () => {
    const long = '☂'.repeat(6_000);
    const input = event({ name: long, labels: LABELS }, long);
    input.incident.acknowledgedBy = { kind: 'session', id: 'u'.repeat(128), display: long };
    const body = buildIncidentEvent(input);
    const { data } = JSON.parse(body);
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(MAX_EVENT_BYTES);
    expect(data.monitor).toMatchObject({ monitorId: 'nightly', labels: {}, name: `${'☂'.repeat(63)}…` });
    expect(data.projectName).toBe(data.monitor.name);
    expect(data.incident.acknowledgedBy).toMatchObject({ id: 'u'.repeat(128), display: data.monitor.name });
    expect(data.truncated).toContain('projectName');
  });
});

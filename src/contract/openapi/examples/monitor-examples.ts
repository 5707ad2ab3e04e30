// Examples of the operations on monitors.
import type { monitorOperations } from '../../operations/monitor-operations.ts';
import type { Examples } from './example.ts';
import {
  ALIAS,
  actor,
  ENDPOINT_URL,
  failure,
  ID,
  incident,
  MONITOR,
  monitor,
  newMonitor,
  PUBLISH_ID,
  REQUEST_ID,
  signingSecret,
  success,
} from './records.ts';

const params = { monitorId: MONITOR };
const window = {
  startsAt: '2030-11-23T01:00:00.000Z',
  endsAt: '2030-11-23T03:00:00.000Z',
  reason: 'New disks',
};
const origin = { kind: 'Monitor', namespace: 'payments', name: 'nightly-backup' } as const;
/** As the operator states and sees it. */
const declared = {
  ...origin,
  uid: '6f1c2f0e-6f0a-4c55-9a52-0c9e3c9b7d11',
  ownedFields: ['graceSeconds', 'labels.team'],
};
const changed = { ...monitor, configurationVersion: 2, updatedAt: '2026-11-22T10:05:00.000Z' };

export const monitorExamples: Examples<keyof ReturnType<typeof monitorOperations>> = {
  listMonitors: {
    query: { label: ['team=storage'], limit: 50 },
    answer: { items: [monitor] },
  },
  createMonitor: {
    body: {
      monitorId: MONITOR,
      name: 'Nightly backup',
      intervalSeconds: 3600,
      labels: { team: 'storage' },
      callback: { kind: 'named', alias: ALIAS },
    },
    answer: { ...newMonitor, replayed: false },
  },
  getMonitor: { params, answer: { ...monitor, latestObservation: failure } },
  updateMonitor: {
    params,
    body: { patch: { graceSeconds: 900, labels: { team: null, tier: 'gold' } } },
    answer: { ...changed, graceSeconds: 900, labels: { tier: 'gold' } },
  },
  deleteMonitor: { params },
  changeMonitorLifecycle: {
    params,
    body: { action: 'enter_maintenance', maintenance: window },
    answer: { ...changed, origin, maintenance: window, status: { ...changed.status, maintenance: window } },
  },
  rotatePublishUrl: {
    params,
    body: { overlapSeconds: 3600 },
    answer: {
      publishUrl: `https://beatkeeper.example.com/ping/${PUBLISH_ID}`,
      replayed: false,
      previousUrlEndsAt: '2026-11-22T11:05:00.000Z',
    },
  },
  getFirstBeat: {
    params,
    query: { waitSeconds: 20 },
    answer: {
      state: 'accepted',
      firstBeatAt: '2026-11-22T09:00:00.000Z',
      nextDeadlineAt: '2026-11-22T11:05:00.000Z',
    },
  },
  testBeat: {
    params,
    body: { status: 'fail', exitStatus: 3 },
    answer: {
      accepted: true,
      violations: [],
      incidentChanges: [{ kind: 'reported_failure', change: 'open', severity: 'critical' }],
      fieldErrors: [],
    },
  },
  explainMonitor: {
    params,
    answer: {
      monitorId: MONITOR,
      at: '2026-11-22T10:05:00.000Z',
      health: 'up',
      because:
        'Up: the last beat came at 10:00:00 UTC; the deadline is 11:05:00 UTC (interval 1 h, grace 5 min).',
      lastBeat: { receivedAt: '2026-11-22T10:00:00.000Z', sequence: 41, kind: 'success' },
      deadline: {
        at: '2026-11-22T11:05:00.000Z',
        parts: [
          {
            kind: 'last_beat',
            at: '2026-11-22T10:00:00.000Z',
            note: 'The last success came at 10:00:00 UTC.',
          },
          { kind: 'interval', seconds: 3600, note: 'The interval is 1 h.' },
          { kind: 'grace', seconds: 300, note: 'The grace is 5 min.' },
        ],
      },
      rules: [
        { measurement: 'rows', rule: 'minimum', lastValue: 980, bound: 1, violationsInRow: 0, opensAt: 1 },
      ],
      silence: [
        {
          reason: 'binding_disabled',
          note: 'The binding of the monitor is disabled: its alerts go nowhere.',
        },
      ],
    },
  },
  listObservations: {
    params,
    query: { since: '2026-01-01T00:00:00Z', limit: 2 },
    answer: { items: [failure, success], nextCursor: 'b2JzZXJ2YXRpb25zIDE' },
  },
  readSeries: {
    params,
    query: {
      since: '2026-11-22T08:00:00Z',
      until: '2026-11-22T10:00:00Z',
      measurement: 'rows',
      bucketSeconds: 3600,
    },
    answer: {
      measurement: 'rows',
      bucketSeconds: 3600,
      items: [
        { startAt: '2026-11-22T08:00:00.000Z', endAt: '2026-11-22T09:00:00.000Z', count: 0 },
        {
          startAt: '2026-11-22T09:00:00.000Z',
          endAt: '2026-11-22T10:00:00.000Z',
          count: 2,
          minimum: 1180,
          maximum: 1204,
          mean: 1192,
        },
      ],
    },
  },
  listMonitorIncidents: { params, query: { state: 'open' }, answer: { items: [incident] } },
  listMonitorChanges: {
    params,
    answer: {
      items: [
        {
          kind: 'lifecycle',
          actor,
          configurationVersion: 2,
          occurredAt: '2026-11-22T10:05:00.000Z',
          sourceRequestId: REQUEST_ID,
          action: 'enter_maintenance',
          lifecycleFrom: 'active',
          lifecycleTo: 'active',
          maintenance: window,
        },
        {
          kind: 'configuration',
          actor,
          configurationVersion: 1,
          occurredAt: '2026-11-22T08:00:00.000Z',
          sourceRequestId: REQUEST_ID,
        },
      ],
    },
  },
  getMonitorBinding: {
    params,
    answer: {
      binding: { kind: 'named', alias: ALIAS },
      target: { endpointId: ID.endpoint, alias: ALIAS, kind: 'webhook', url: ENDPOINT_URL },
    },
  },
  setMonitorBinding: {
    params,
    body: { binding: { kind: 'inline', url: ENDPOINT_URL } },
    answer: {
      binding: { kind: 'inline', url: ENDPOINT_URL },
      target: { endpointId: ID.endpoint, kind: 'webhook', url: ENDPOINT_URL },
      replayed: false,
      signingSecret,
    },
  },
  setMonitorOrigin: {
    params,
    body: { origin: declared },
    answer: { ...changed, origin: declared },
  },
  reportMonitorOrigins: {
    body: { orphaned: [MONITOR], seen: [] },
    answer: { orphaned: 1, seen: 0 },
  },
};

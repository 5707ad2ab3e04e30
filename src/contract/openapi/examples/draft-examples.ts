// Examples of the operations on drafts of rules.
import type { draftOperations } from '../../operations/draft-operations.ts';
import type { DraftRecord, ReplayedIncidentRecord } from '../../resources/draft.ts';
import type { Examples } from './example.ts';
import { ID, MONITOR } from './records.ts';

const params = { monitorId: MONITOR };
const CREATED = '2026-11-22T10:10:00.000Z';
const LATER = '2026-11-22T10:12:00.000Z';

const proposal = { measurementKey: 'rows', definition: { minimum: 1000 } };
const defaults = {
  metricType: 'gauge',
  missingPolicy: 'skip',
  transform: 'none',
  mode: 'heartbeat',
  rulePolicy: { consecutiveObservations: 1, severity: 'warning' },
  ruleAction: { mode: 'active', version: 1 },
} as const;

const draft: DraftRecord = {
  id: ID.draft,
  monitorKey: MONITOR,
  jurisdiction: 'unrestricted',
  version: 1,
  baseConfigurationVersion: 1,
  status: 'open',
  proposal: { measurementKey: 'rows', definition: { ...defaults, minimum: 1000 } },
  history: { frozenAt: CREATED, observationCount: 2, fromSequence: 1, throughSequence: 2 },
  createdAt: CREATED,
  updatedAt: CREATED,
};
const patient = {
  minimum: 1000,
  rulePolicy: { consecutiveObservations: 2, severity: 'critical' },
} as const;
const updated: DraftRecord = {
  ...draft,
  id: ID.otherDraft,
  version: 2,
  proposal: { measurementKey: 'rows', definition: { ...defaults, ...patient } },
  updatedAt: LATER,
};

const flagged: ReplayedIncidentRecord = {
  measurement: 'rows',
  rule: 'minimum',
  state: 'open',
  severity: 'warning',
  openedAt: '2026-11-22T09:00:00.000Z',
  openSequence: 1,
  lastSequence: 1,
  violationCount: 1,
  summary: 'rows is 0, below its minimum of 1000.',
};

const suggested: ReplayedIncidentRecord = {
  ...flagged,
  state: 'recovered',
  openedAt: '2026-11-07T01:00:00.000Z',
  openSequence: 351,
  lastSequence: 352,
  recoveringAt: '2026-11-07T02:00:00.000Z',
  recoveredAt: '2026-11-07T02:00:00.000Z',
  summary: 'rows is 0, below its minimum of 860.',
};

export const draftExamples: Examples<keyof typeof draftOperations> = {
  suggestRule: {
    params,
    body: { measurementKey: 'rows' },
    answer: {
      measurementKey: 'rows',
      definition: { ...defaults, minimum: 860, maximum: 1140 },
      window: {
        observationCount: 720,
        successCount: 718,
        fromSequence: 1,
        throughSequence: 720,
        fromAt: '2026-10-23T11:00:00.000Z',
        throughAt: '2026-11-22T10:00:00.000Z',
      },
      values: { count: 718, smallest: 0, low: 912, median: 1003, high: 1087, largest: 1094 },
      proposed: { incidents: [suggested], flaggedCount: 1, refusedCount: 0 },
      flaggedShare: 1 / 718,
    },
  },
  createDraft: { params, body: { proposal }, answer: draft },
  listDrafts: { params, answer: { items: [draft] } },
  getDraft: { params: { ...params, draftId: ID.draft }, answer: draft },
  updateDraft: {
    params,
    body: {
      draftId: ID.otherDraft,
      expectedDraftVersion: 1,
      proposal: { measurementKey: 'rows', definition: patient },
    },
    answer: updated,
  },
  replayDraft: {
    params,
    body: { draftId: ID.draft },
    answer: {
      draft,
      window: {
        observationCount: 2,
        successCount: 1,
        fromSequence: 1,
        throughSequence: 2,
        fromAt: '2026-11-22T09:00:00.000Z',
        throughAt: '2026-11-22T10:00:00.000Z',
      },
      current: { incidents: [], flaggedCount: 0, refusedCount: 0 },
      proposed: { incidents: [flagged], flaggedCount: 1, refusedCount: 0 },
      difference: { added: [flagged], removed: [], unchanged: 0 },
    },
  },
  applyDraft: {
    params,
    body: { draftId: ID.draft, confirm: true, expectedDraftVersion: 1, expectedConfigurationVersion: 1 },
    answer: { ...draft, status: 'applied', appliedConfigurationVersion: 2, closedAt: LATER },
  },
  cancelDraft: {
    params,
    body: { draftId: ID.otherDraft },
    answer: { ...updated, status: 'canceled', closedAt: '2026-11-22T10:13:00.000Z' },
  },
};

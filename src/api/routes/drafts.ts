// Drafts of rules: a proposal is what the contract makes of a definition, as a PATCH of the monitor would store it.
import type { OperationInput } from '../../contract/operations/operations.ts';
import { MAX_MEASUREMENTS } from '../../contract/resources/measurement-rule.ts';
import { mergeMeasurementRule } from '../../contract/resources/measurement-rule-patch.ts';
import type { Proposal } from '../../domain/draft.ts';
import type { Jurisdiction, MonitorConfiguration } from '../../domain/monitor.ts';
import { ProblemError } from '../../domain/problem.ts';
import { optionalMs } from '../../domain/timestamp.ts';
import {
  applyDraft,
  cancelDraft,
  changeDraft,
  createDraft,
  type DraftName,
  type MonitorDraft,
  readDraft,
} from '../../service/monitors/drafts.ts';
import { findMonitor } from '../../service/monitors/monitor-access.ts';
import { replayDraft } from '../../service/monitors/replay-draft.ts';
import { suggestRule } from '../../service/monitors/suggest-rule.ts';
import { listDrafts } from '../../store/monitors/drafts.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import { presentDraft, presentReplay, presentSuggestion } from '../present/present-draft.ts';
import { monitorNameOf } from './monitors.ts';

const LIST = 'drafts';

type DraftOperation =
  | 'suggestRule'
  | 'createDraft'
  | 'listDrafts'
  | 'getDraft'
  | 'updateDraft'
  | 'replayDraft'
  | 'applyDraft'
  | 'cancelDraft';

/** A call whose body names a draft. */
interface DraftCall {
  input: {
    params: { monitorId: string };
    query: { jurisdiction?: Jurisdiction };
    body: { draftId: string };
  };
  caller: { projectId: string };
}

export const draftHandlers: Handlers<DraftOperation> = {
  suggestRule: async (call) => {
    const request = { name: monitorNameOf(call), ...call.input.body, signal: call.signal };
    return { body: presentSuggestion(await suggestRule(call.db, call.context, request)) };
  },

  createDraft: async (call) => {
    const creation = { name: monitorNameOf(call), proposal: proposalOf(call.input.body.proposal) };
    return await call.write((tx) => createDraft(tx, call.context, creation), answer);
  },

  listDrafts: async (call) => {
    const { query } = call.input;
    const page = readPage(LIST, query, 'id');
    const monitor = await findMonitor(call.db, monitorNameOf(call));
    const rows = await listDrafts(call.db, monitor, page);
    return { body: presentPage(LIST, query, rows, (draft) => presentDraft({ monitor, draft })) };
  },

  getDraft: async (call) => {
    const name = { monitor: monitorNameOf(call), draftId: call.input.params.draftId };
    return answer(await readDraft(call.db, name));
  },

  updateDraft: async (call) => {
    const { expectedDraftVersion: expectedVersion, proposal } = call.input.body;
    const change = { name: draftNameOf(call), expectedVersion, proposal: proposalOf(proposal) };
    return await call.write((tx, nowMs) => changeDraft(tx, call.context, change, nowMs), answer);
  },

  replayDraft: async (call) => {
    const { since, until } = call.input.body;
    const span = since === undefined ? undefined : { sinceMs: Date.parse(since), untilMs: optionalMs(until) };
    const request = { name: draftNameOf(call), span, signal: call.signal };
    return { body: presentReplay(await replayDraft(call.db, call.context, request)) };
  },

  applyDraft: async (call) => {
    const { expectedDraftVersion: expectedVersion, expectedConfigurationVersion } = call.input.body;
    const application = {
      name: draftNameOf(call),
      expectedVersion,
      expectedConfigurationVersion,
      merge: withProposal,
    };
    return await call.write((tx) => applyDraft(tx, call.context, call.caller, application), answer);
  },

  cancelDraft: async (call) => {
    const change = { name: draftNameOf(call), expectedVersion: call.input.body.expectedDraftVersion };
    return await call.write((tx, nowMs) => cancelDraft(tx, change, nowMs), answer);
  },
};

function draftNameOf(call: DraftCall): DraftName {
  return { monitor: monitorNameOf(call), draftId: call.input.body.draftId };
}

function answer(draft: MonitorDraft) {
  return { body: presentDraft(draft) };
}

/** The contract has made all checks: the definition merges with nothing. */
function proposalOf({
  measurementKey,
  definition,
}: OperationInput<'createDraft'>['body']['proposal']): Proposal {
  const merged = mergeMeasurementRule(measurementKey, undefined, definition);
  if ('rule' in merged) return { measurementKey, definition: merged.rule };
  throw new Error(`The contract has accepted a definition with a fault: ${merged.faults[0]?.message}`);
}

/** Throws `conflict` for one measurement too many. */
function withProposal(
  current: MonitorConfiguration,
  { measurementKey, definition }: Proposal,
): MonitorConfiguration {
  const measurements = { ...current.measurements, [measurementKey]: definition };
  if (Object.keys(measurements).length <= MAX_MEASUREMENTS) return { ...current, measurements };
  throw new ProblemError('conflict', {
    detail: `A monitor has rules for at most ${MAX_MEASUREMENTS} measurements: remove one first.`,
  });
}

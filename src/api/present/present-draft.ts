// Drafts of rules as the API shows them (docs/contract/rules.md).
import type {
  DraftRecord,
  DraftReplayRecord,
  ReplayedIncidentRecord,
  ReplayedWindowRecord,
} from '../../contract/resources/draft.ts';
import { measurementRuleWithDefaults } from '../../contract/resources/measurement-rule-patch.ts';
import type { RuleSuggestionRecord } from '../../contract/resources/rule-suggestion.ts';
import type { Draft } from '../../domain/draft.ts';
import type { Incident } from '../../domain/incident.ts';
import type { RuleKind } from '../../domain/rules/rule-kinds.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { MonitorDraft } from '../../service/monitors/drafts.ts';
import type { DraftReplay } from '../../service/monitors/replay-draft.ts';
import type { ReplayedWindow } from '../../service/monitors/replayed-window.ts';
import type { ReplayedRule } from '../../service/monitors/rule-replay.ts';
import type { RuleSuggestion } from '../../service/monitors/suggest-rule.ts';

export function presentDraft({ monitor, draft }: MonitorDraft): DraftRecord {
  const { measurementKey, definition } = draft.proposal;
  return {
    id: draft.draftId,
    monitorKey: monitor.monitorId,
    jurisdiction: monitor.jurisdiction,
    version: draft.version,
    baseConfigurationVersion: draft.baseConfigurationVersion,
    appliedConfigurationVersion: draft.appliedConfigurationVersion,
    status: draft.status,
    proposal: { measurementKey, definition: measurementRuleWithDefaults(definition) },
    history: presentHistory(draft.history),
    createdAt: toTime(draft.createdMs),
    updatedAt: toTime(draft.updatedMs),
    closedAt: optionalTime(draft.closedMs),
  };
}

function presentHistory({ frozenMs, observationCount, range }: Draft['history']): DraftRecord['history'] {
  const { fromSequence, throughSequence } = range ?? {};
  return { frozenAt: toTime(frozenMs), observationCount, fromSequence, throughSequence };
}

export function presentReplay(replay: DraftReplay): DraftReplayRecord {
  const { added, removed, unchanged } = replay.difference;
  return {
    draft: presentDraft(replay),
    window: presentWindow(replay.window),
    current: presentRule(replay.current),
    proposed: presentRule(replay.proposed),
    difference: {
      added: added.map(presentReplayed),
      removed: removed.map(presentReplayed),
      unchanged,
    },
  };
}

export function presentSuggestion(suggestion: RuleSuggestion): RuleSuggestionRecord {
  const { definition, window, values, proposed, measurementKey } = suggestion;
  return {
    measurementKey,
    definition: measurementRuleWithDefaults(definition),
    window: presentWindow(window),
    values,
    proposed: presentRule(proposed),
    flaggedShare: proposed.flaggedCount / values.count,
  };
}

function presentWindow({ first, last, ...counts }: ReplayedWindow): ReplayedWindowRecord {
  return {
    ...counts,
    fromSequence: first?.sequence,
    throughSequence: last?.sequence,
    fromAt: optionalTime(first?.atMs),
    throughAt: optionalTime(last?.atMs),
  };
}

function presentRule({ incidents, ...counts }: ReplayedRule): DraftReplayRecord['current'] {
  return { incidents: incidents.map(presentReplayed), ...counts };
}

function presentReplayed(incident: Incident): ReplayedIncidentRecord {
  const { state, severity, openSequence, lastSequence, violationCount, summary } = incident;
  return {
    measurement: incident.measurement ?? '',
    // Only rules are replayed.
    rule: incident.rule as RuleKind,
    state,
    severity,
    openedAt: toTime(incident.openedMs),
    openSequence,
    lastSequence,
    recoveringAt: optionalTime(incident.recoveringMs),
    recoveredAt: optionalTime(incident.recoveredMs),
    violationCount,
    summary,
  };
}

// Replays a draft over its window, or over a span, by the rule that the monitor has and by the proposed one
// (docs/contract/rules.md). It changes nothing.
import type { FrozenWindow } from '../../domain/draft.ts';
import { ProblemError } from '../../domain/problem.ts';
import { type KeptObservations, keptObservations } from '../../domain/retention.ts';
import { compareReplays, type ReplayDifference } from '../../domain/rules/compare-replays.ts';
import { readWindow, type WindowObservation } from '../../store/beats/frozen-window.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Database } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';
import { type DraftName, type MonitorDraft, readDraft } from './drafts.ts';
import {
  EMPTY_WINDOW,
  extendWindow,
  type ReplayedWindow,
  readSpan,
  requireWanted,
  successesOf,
} from './replayed-window.ts';
import { type ReplayedRule, RuleReplay } from './rule-replay.ts';

export interface DraftReplay extends MonitorDraft {
  window: ReplayedWindow;
  current: ReplayedRule;
  proposed: ReplayedRule;
  difference: ReplayDifference;
}

export interface ReplayRequest {
  name: DraftName;
  /** In place of the frozen window. */
  span?: {
    /** Inclusive. */
    sinceMs: number;
    /** Exclusive; default: now. */
    untilMs?: number;
  };
  /** Ends the reading: the caller has left, or the service ends. */
  signal: AbortSignal;
}

/**
 * Throws `not_found`, and `conflict` also where the window has lost observations to retention, and where a rule opens too
 * many incidents.
 */
export async function replayDraft(
  db: Database,
  { findPlan }: Pick<ServiceContext, 'findPlan'>,
  { name, span, signal }: ReplayRequest,
): Promise<DraftReplay> {
  const { monitor, draft } = await readDraft(db, name);
  const { nowMs, planId, live } = monitor;
  const kept = keptObservations(findPlan(planId), { nowMs, lastSequence: live.lastSequence });
  // The newest beat may be of this very millisecond.
  const untilMs = span ? Math.min(span.untilMs ?? nowMs + 1, nowMs + 1) : draft.history.frozenMs;
  const pages = span
    ? readSpan(db, monitor, { sinceMs: Math.max(span.sinceMs, kept.fromMs), untilMs, kept })
    : [await readFrozen(db, monitor, { history: draft.history, kept })];

  const { measurementKey: key, definition } = draft.proposal;
  const current = new RuleReplay(key, monitor.configuration.measurements[key]);
  const proposed = new RuleReplay(key, definition);
  let window: ReplayedWindow = EMPTY_WINDOW;
  for await (const page of pages) {
    requireWanted(signal, 'replay');
    for (const rule of [current, proposed]) rule.take(successesOf(page));
    window = extendWindow(window, page);
  }
  const [before, after] = [current.end(untilMs), proposed.end(untilMs)];
  return {
    monitor,
    draft,
    window,
    current: before,
    proposed: after,
    difference: compareReplays(before.incidents, after.incidents),
  };
}

/** The observations of the window, oldest first. What the plan does not keep any more is not read, deleted or not. */
async function readFrozen(
  db: Database,
  monitor: MonitorRecord,
  { history: { range, observationCount }, kept }: { history: FrozenWindow; kept: KeptObservations },
): Promise<WindowObservation[]> {
  if (!range) return [];
  const isKept = range.fromMs >= kept.fromMs && range.fromSequence >= kept.fromSequence;
  const observations = isKept ? await readWindow(db, monitor, range) : [];
  if (observations.length === observationCount) return observations;
  throw new ProblemError('conflict', {
    detail:
      'Observations of the window are not kept any more: create a new draft, whose window has the newest ones.',
  });
}

// Suggests a rule for a measurement from the monitor's history, and replays it over that history (docs/contract/rules.md).
// It changes nothing.
import { setImmediate } from 'node:timers/promises';
import type { MeasurementRule } from '../../domain/monitor.ts';
import { ProblemError } from '../../domain/problem.ts';
import { DAY_MS, KEPT_DAYS, keptObservations } from '../../domain/retention.ts';
import {
  isCalm,
  MAX_ROW,
  MIN_VALUES,
  suggestBounds,
  summarizeValues,
  type ValueSummary,
} from '../../domain/rules/suggest.ts';
import { ValueHistory } from '../../domain/rules/value-history.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Database } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';
import { findMonitor } from './monitor-access.ts';
import { requireAllowedRules } from './monitor-rules.ts';
import {
  EMPTY_WINDOW,
  extendWindow,
  type ReplayedWindow,
  readSpan,
  requireWanted,
  successesOf,
} from './replayed-window.ts';
import { type ReplayedRule, RuleReplay } from './rule-replay.ts';

/** A month of a job that beats each minute. */
const MAX_OBSERVATIONS = 50_000;
/** Successes that are judged before others have their turn: some milliseconds. */
const STEP = 1_000;

export interface RuleSuggestion {
  measurementKey: string;
  /** The whole rule, as a monitor or a draft stores it. */
  definition: MeasurementRule;
  window: ReplayedWindow;
  values: ValueSummary;
  /** Of the suggested rule. */
  proposed: ReplayedRule;
}

export interface SuggestRequest {
  name: MonitorName;
  measurementKey: string;
  /** Default: that of the monitor's rule, else `gauge`. */
  metricType?: MeasurementRule['metricType'];
  /** Ends the work: the caller has left, or the service ends. */
  signal: AbortSignal;
}

/** Throws `not_found`, `plan_limit_reached`, and `conflict` also where the history has too few values. */
export async function suggestRule(
  db: Database,
  { findPlan }: Pick<ServiceContext, 'findPlan'>,
  { name, measurementKey: key, metricType, signal }: SuggestRequest,
): Promise<RuleSuggestion> {
  const monitor = await findMonitor(db, name);
  const plan = findPlan(monitor.planId);
  const before = monitor.configuration.measurements;
  const form = formOf(before[key], metricType);
  const history = new ValueHistory(key, form);
  let window: ReplayedWindow = EMPTY_WINDOW;
  for await (const page of readNewest(db, monitor, plan)) {
    requireWanted(signal, 'suggestion');
    for (const success of successesOf(page)) history.take(success);
    window = extendWindow(window, page);
  }
  requireValues(history.valueCount, key);

  const sorted = history.sortedValues();
  const values = summarizeValues(sorted);
  const isWhole = sorted.every((value) => Number.isInteger(value));
  const rule = { ...form, ...suggestBounds(values, { metricType: form.metricType, isWhole }) };
  requireAllowedRules(plan, { before, after: { [key]: rule } }, () => 'measurementKey');
  const suggested = await choosePolicy({ key, rule, history, untilMs: monitor.nowMs, signal });
  return { measurementKey: key, window, values, ...suggested };
}

/** What decides the values stays as the monitor has it: a change of it would refuse or miss other successes. */
function formOf(
  present: MeasurementRule | undefined,
  metricType: MeasurementRule['metricType'],
): MeasurementRule {
  const { missingPolicy, unit } = present ?? {};
  const stated = { metricType: metricType ?? present?.metricType, missingPolicy, unit };
  return Object.fromEntries(Object.entries(stated).filter(([, value]) => value !== undefined));
}

function readNewest(
  db: Database,
  monitor: MonitorRecord,
  terms: { observationRetentionSeconds: number; storedObservations: number },
) {
  const { nowMs, live } = monitor;
  const storedObservations = Math.min(terms.storedObservations, MAX_OBSERVATIONS);
  const kept = keptObservations({ ...terms, storedObservations }, { nowMs, lastSequence: live.lastSequence });
  // Days are kept whole; a replay goes back 30 days to the millisecond, and is to read the same.
  const sinceMs = Math.max(kept.fromMs, nowMs - KEPT_DAYS.observations * DAY_MS);
  return readSpan(db, monitor, { sinceMs, untilMs: nowMs + 1, kept });
}

function requireValues(count: number, key: string): void {
  if (count >= MIN_VALUES) return;
  const has = `${count} ${count === 1 ? 'value' : 'values'}`;
  throw new ProblemError('conflict', {
    detail: `The history has ${has} of ${key}, and a suggestion needs ${MIN_VALUES}: ask again when more beats have it, or choose bounds yourself.`,
  });
}

interface Bounded {
  key: string;
  /** Without a policy. */
  rule: MeasurementRule;
  history: ValueHistory;
  untilMs: number;
  signal: AbortSignal;
}

/** The rule with the first policy that is calm, else the last, and what it makes of the history. */
async function choosePolicy({
  rule,
  ...bounded
}: Bounded): Promise<Pick<RuleSuggestion, 'definition' | 'proposed'>> {
  for (let row = 1; ; row += 1) {
    const definition: MeasurementRule = {
      ...rule,
      rulePolicy: { consecutiveObservations: row, severity: 'warning' },
    };
    const proposed = await replay({ ...bounded, rule: definition });
    const calm = isCalm(proposed.incidents.length, bounded.history.spanMs);
    if (calm || row === MAX_ROW) return { definition, proposed };
  }
}

/** In steps: beats of others are answered in between. */
async function replay({ key, rule, history, untilMs, signal }: Bounded): Promise<ReplayedRule> {
  const replayed = new RuleReplay(key, rule);
  for (let from = 0; from < history.successCount; from += STEP) {
    requireWanted(signal, 'suggestion');
    replayed.take(history.successes(from, from + STEP));
    await setImmediate();
  }
  return replayed.end(untilMs);
}

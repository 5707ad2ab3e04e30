// Why a monitor is, or was, in its state (docs/contract/monitors.md). What is stored is read in one snapshot; the domain
// makes the sentences. A moment in the past is counted again from changes, observations, incidents and outages.
import { stopClock } from '../../domain/deadline.ts';
import { explain } from '../../domain/explain/explain.ts';
import type { Explanation, IncidentThen, Situation } from '../../domain/explain/situation.ts';
import { REALERT_MS, type TimelineEntry } from '../../domain/incident.ts';
import { type LiveState, newLiveState } from '../../domain/monitor.ts';
import { OPERATOR_CAUSES } from '../../domain/operator-cause.ts';
import { signsAt } from '../../domain/operator-sign.ts';
import { compileRules, keysRead } from '../../domain/rules/compile.ts';
import { deadlinesOf, firstDeadline, mergeOutages } from '../../domain/silence.ts';
import { type BeatPlace, findBeat } from '../../store/beats/observations-read.ts';
import { findPastSuccesses } from '../../store/beats/past-successes.ts';
import { findIncidentsAt, type PastIncident } from '../../store/incidents/past-incidents.ts';
import { listPastChanges } from '../../store/monitors/monitor-changes.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inSnapshot } from '../../store/postgres/transaction.ts';
import { readOperators } from '../../store/upkeep/operator-signs.ts';
import { readOutages } from '../../store/upkeep/service-clock.ts';
import { resolveTargets } from '../callbacks/callback-targets.ts';
import type { ServiceContext } from '../calls/context.ts';
import { classifyStart, findStartThen, type KnownPast, missedAt } from './clock-start.ts';
import { type KnownOutages, withOperator } from './explained-outages.ts';
import { type ExplainedService, explainedService } from './explained-service.ts';
import { findMonitor, timingOf } from './monitor-access.ts';
import { type PastState, replay, statesAfter } from './past-clock.ts';
import { BEATS, KEPT_MS, MOST_CHANGES, requireBeats, requireKept } from './past-moment.ts';

type Suppressed = IncidentThen['suppressed'][number];

export interface ExplainedMonitor extends Explanation {
  monitorId: string;
  atMs: number;
  /** Only its time is known where its observation is no longer kept. */
  lastBeat?: Partial<BeatPlace> & Pick<BeatPlace, 'receivedMs'>;
}

/** Undefined `atMs`: now. Throws `not_found`, `conflict`, and `plan_limit_reached` or `validation_failed` for a moment that is not kept. */
export async function explainMonitor(
  db: Database,
  context: Pick<ServiceContext, 'minimumIntervalSeconds' | 'findPlan'>,
  name: MonitorName,
  atMs: number | undefined,
): Promise<ExplainedMonitor> {
  return await inSnapshot(db, async (tx) => {
    const record = await findMonitor(tx, name);
    requireKept(record, context.findPlan(record.planId), atMs);
    const moment = { record, atMs: atMs ?? record.nowMs, isNow: atMs === undefined };
    const changes = await listPastChanges(tx, record, { untilMs: moment.atMs, limit: MOST_CHANGES });
    const states = statesAfter(changes, context.minimumIntervalSeconds * 1000, record.beatenBy);
    const incidents = (await findIncidentsAt(tx, record, moment.atMs)).map((one) =>
      incidentThen(one, moment.isNow),
    );
    const lastBeat = await findLastBeat(tx, moment);
    if (!lastBeat) await requireBeats(tx, record, moment.atMs);
    const timing = (moment.isNow ? undefined : states.at(-1)?.timing) ?? timingOf(context, record);
    const service = explainedService(timingOf(context, record), record);
    const facts = { ...moment, timing, states, incidents, lastBeat, service };
    const clock = moment.isNow ? await clockNow(tx, facts) : await clockThen(tx, facts);
    const explanation = explain({
      atMs: moment.atMs,
      timing,
      incidents,
      changes: changesSince(states, clock.live),
      action: actionOf(states),
      unbound: await findUnbound(tx, facts),
      ...(moment.isNow ? service : restThen(service, moment.atMs)),
      rules: await rulesThen(tx, facts),
      ...clock,
    });
    return { monitorId: record.monitorId, atMs: moment.atMs, lastBeat, ...explanation };
  });
}

interface Facts extends KnownPast {
  isNow: boolean;
  timing: Situation['timing'];
  lastBeat?: ExplainedMonitor['lastBeat'];
  service: ExplainedService;
}

/** A rest that had begun. States of the past are not kept. */
function restThen({ restsSinceMs }: ExplainedService, atMs: number): Pick<Situation, 'restsSinceMs'> {
  return { restsSinceMs: restsSinceMs !== undefined && restsSinceMs <= atMs ? restsSinceMs : undefined };
}

/** The rules of then, with the successes before. */
async function rulesThen(
  tx: Queryable,
  { record, states, isNow, atMs, lastBeat }: Facts,
): Promise<Situation['rules']> {
  const { configuration } = (isNow ? undefined : states.at(-1)) ?? record;
  const compiled = compileRules(configuration.measurements);
  if (compiled.measurements.size === 0) return undefined;
  const { projectId, monitorKey } = record;
  const lastSequence = lastBeat?.sequence ?? 0;
  const of = { projectId, monitorKey, lastSequence, read: keysRead(compiled) };
  const past = await findPastSuccesses(tx, [of], atMs - KEPT_MS);
  return { compiled, history: past.get(monitorKey) ?? [] };
}

type Clock = Pick<Situation, 'live' | 'start' | 'outages' | 'operator' | 'isCadenceLost'>;

async function findLastBeat(
  tx: Queryable,
  { record, atMs }: Pick<Facts, 'record' | 'atMs'>,
): Promise<ExplainedMonitor['lastBeat']> {
  const { lastBeatMs } = record.live;
  if (lastBeatMs === undefined) return undefined;
  const span = { kinds: BEATS, order: 'last' } as const;
  if (lastBeatMs > atMs)
    return await findBeat(tx, record, { ...span, sinceMs: atMs - KEPT_MS, untilMs: atMs });
  const found = await findBeat(tx, record, { ...span, sinceMs: lastBeatMs, untilMs: lastBeatMs });
  return found ?? { receivedMs: lastBeatMs };
}

/** As the live row has it. */
async function clockNow(tx: Queryable, facts: Facts): Promise<Clock> {
  const { record, states } = facts;
  const { live } = record;
  const start =
    live.anchorMs === undefined ? undefined : await classifyStart(tx, { record, states }, live.anchorMs);
  return { live, start, ...(await outagesSince(tx, facts, live)) };
}

async function clockThen(tx: Queryable, facts: Facts): Promise<Clock> {
  const { record, states, timing, incidents, atMs } = facts;
  const { restsSinceMs } = facts.service;
  if (restsSinceMs !== undefined && restsSinceMs <= atMs) return await clockNow(tx, facts);
  const start = await findStartThen(tx, facts);
  const { known: before, isCadenceLost } = knownThen(facts);
  const missed = missedAt(incidents);
  const live = start ? replay(states, start, before, missed?.sinceMs) : { ...newLiveState(), ...before };
  const known = outagesThen(await outagesSince(tx, facts, live), atMs);
  const { outages } = known;
  const deadlines = deadlinesOf(timing, live, outages);
  // An open incident says nothing of a deadline that was missed again.
  const isMissed = missed && (missed.sinceMs > (start?.atMs ?? 0) || (deadlines.at(-1) ?? atMs) <= atMs);
  if (isMissed) return { live: stopClock(live), start: start?.by, ...known };
  const judgedMs = Math.min(atMs, known.operator ? (known.operator.signMs ?? 0) : atMs);
  const missedCount = deadlines.filter((deadlineMs) => deadlineMs <= judgedMs).length;
  const counted = countedClock(timing, live, deadlines, missedCount);
  const isOwn = record.live.anchorMs === start?.atMs;
  return {
    live: isOwn ? withExcuse(counted, record.live, atMs) : counted,
    start: start?.by,
    ...known,
    isCadenceLost,
  };
}

/** The clock as a sweeper had left it: at the deadline that counts, where outages have moved it to. */
function countedClock(
  timing: Situation['timing'],
  live: LiveState,
  deadlines: readonly number[],
  passed: number,
): LiveState {
  const missedCount = Math.min(passed, Math.max(0, deadlines.length - 1));
  const deadlineMs = deadlines[missedCount] ?? live.deadlineMs;
  const firstMs = firstDeadline(timing, live);
  return { ...live, missedCount, deadlineMs, unmovedMs: firstMs === deadlineMs ? undefined : firstMs };
}

/** What the live row has of a time before the moment. */
function knownThen({ record, atMs, lastBeat, timing }: Facts): {
  known: Partial<LiveState>;
  isCadenceLost: boolean;
} {
  const { firstBeatMs, lastSuccessMs = 0, cadenceMs, gaps } = record.live;
  const isLearned = timing.intervalMs === undefined && timing.schedule === undefined;
  const isCadenceLost = isLearned && lastSuccessMs > atMs;
  return {
    isCadenceLost,
    known: {
      firstBeatMs: firstBeatMs !== undefined && firstBeatMs <= atMs ? firstBeatMs : undefined,
      lastBeatMs: lastBeat?.receivedMs,
      ...(isCadenceLost ? {} : { cadenceMs, gaps }),
    },
  };
}

function withExcuse(
  live: LiveState,
  { excusedFromMs, excusedMs, excusedBeats }: LiveState,
  atMs: number,
): LiveState {
  return excusedMs !== undefined && excusedMs <= atMs
    ? { ...live, excusedFromMs, excusedMs, excusedBeats }
    : live;
}

/** Those of the service since the clock started, and those of the operator that beats the monitor now: who did then is not kept. */
async function outagesSince(
  tx: Queryable,
  { record, atMs }: Pick<Facts, 'record' | 'atMs'>,
  { anchorMs }: LiveState,
): Promise<KnownOutages> {
  const serviceOutages = anchorMs === undefined ? [] : mergeOutages(await readOutages(tx, anchorMs));
  const { organizationId, beatenBy } = record;
  if (beatenBy === undefined) return { outages: serviceOutages };
  const of = { organizationId, operatorId: beatenBy };
  const signs = (await readOperators(tx, [of], anchorMs ?? atMs)).of(of, record);
  return withOperator(serviceOutages, signs);
}

/** What was known then: those of the service that had begun, and of the operator that had ended. */
function outagesThen({ outages, operator }: KnownOutages, atMs: number): KnownOutages {
  const begun = (operator?.serviceOutages ?? outages).filter(({ fromMs }) => fromMs < atMs);
  return operator ? withOperator(begun, signsAt(operator, atMs)) : { outages: begun };
}

function changesSince(states: readonly PastState[], { anchorMs = 0 }: LiveState): number[] {
  return states.map(({ occurredMs }) => occurredMs).filter((occurredMs) => occurredMs > anchorMs);
}

function actionOf(states: readonly PastState[]): Situation['action'] {
  const newest = states.findLast(({ change }) => change.kind === 'lifecycle');
  if (!newest) return undefined;
  return { atMs: newest.occurredMs, actor: newest.actor };
}

function incidentThen({ incident, entries }: PastIncident, isNow: boolean): IncidentThen {
  const { incidentId, kind, severity, openedMs, summary } = incident;
  const last = entries.findLast(({ to }) => to !== undefined);
  const reopened = entries.findLast(({ type }) => type === 'reopened')?.detail?.deadlineAt;
  return {
    incidentId,
    kind,
    severity,
    openedMs,
    summary,
    state: last?.to ?? 'open',
    sinceMs: last?.atMs ?? openedMs,
    deadlineMs: typeof reopened === 'string' ? Date.parse(reopened) : incident.deadlineMs,
    alertedMs: isNow ? incident.alertedMs : alertedThen(openedMs, entries),
    heldMs: isNow ? incident.heldMs : undefined,
    suppressed: entries.flatMap((entry) => suppressedThen(entry, entries, isNow ? incident : undefined)),
  };
}

/** `now`: the incident as it is, where that is the moment. */
function suppressedThen(
  { type, atMs, detail = {} }: TimelineEntry,
  entries: PastIncident['entries'],
  now: PastIncident['incident'] | undefined,
): Suppressed[] {
  if (type !== 'suppressed') return [];
  const [event, reason] = [String(detail.event), String(detail.reason)];
  if (reason !== 'dependency') return [{ atMs, event, reason }];
  // Its alert went out after all.
  if (now && !now.suppressedBy) return [];
  if (entries.some((entry) => entry.type === 'released' && entry.atMs >= atMs)) return [];
  return [{ atMs, event, reason, by: causeIn(detail) }];
}

/** The cause that an entry names: that of an opening alone. */
function causeIn({ monitorId, incidentId, cause, object }: Record<string, unknown>): Suppressed['by'] {
  const known = OPERATOR_CAUSES.find((one) => one === cause);
  if (known) return { cause: known, object: String(object) };
  if (monitorId === undefined || incidentId === undefined) return undefined;
  return { monitorId: String(monitorId), incidentId: String(incidentId) };
}

/** When its last alert was due: the row of an incident knows only the newest one. */
function alertedThen(openedMs: number, entries: PastIncident['entries']): number {
  return entries.reduce((lastMs, { type, atMs }) => {
    if (type === 'escalated') return atMs;
    // Where the monitor depends on others, its alert went out then.
    if (type === 'released') return atMs;
    return type === 'reopened' && atMs - lastMs >= REALERT_MS ? atMs : lastMs;
  }, openedMs);
}

/** What an endpoint was in the past is known where an alert was not sent: the timeline of its incident says so. */
async function findUnbound(tx: Queryable, { record, states, isNow }: Facts): Promise<Situation['unbound']> {
  const binding = isNow ? record.binding : (states.at(-1)?.configuration.binding ?? record.binding);
  if (binding.kind === 'disabled') return 'binding_disabled';
  if (!isNow) return undefined;
  const result = (await resolveTargets(tx, [record])).get(record.monitorKey);
  return result && 'unavailableReason' in result ? result.unavailableReason : undefined;
}

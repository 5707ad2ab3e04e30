// Where the clock of a monitor had last started at a moment in the past, and what started it. The live row knows it as long
// as the clock has not started again since; before that, beats, changes and incidents do.
import type { BeatKind } from '../../domain/beat.ts';
import { EARLY_START_MS, slotOfStart } from '../../domain/deadline.ts';
import type { ClockStart, IncidentThen } from '../../domain/explain/situation.ts';
import { findBeat } from '../../store/beats/observations-read.ts';
import { findResolvedSilence } from '../../store/incidents/past-incidents.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { findStart, hasPassed, type PastState, replay, type StartedClock } from './past-clock.ts';
import { BEATS, KEPT_MS, MOST_CHANGES, requireStartKept } from './past-moment.ts';

/** What moves a clock that runs; of a monitor that an operator beats a start does too. */
const ENDS: readonly BeatKind[] = ['success', 'fail'];

/** What is known of a monitor up to a moment: its changes and the incidents that had not ended. */
export interface KnownPast {
  record: MonitorRecord;
  atMs: number;
  /** Oldest first. */
  states: readonly PastState[];
  incidents: readonly IncidentThen[];
}

/** The missed deadline that is open. */
export function missedAt(incidents: readonly IncidentThen[]): IncidentThen | undefined {
  return incidents.find(({ kind, state }) => kind === 'missed_deadline' && state === 'open');
}

/** Undefined where none had started. Throws `validation_failed` where a beat that is deleted may have started it. */
export async function findStartThen(tx: Queryable, past: KnownPast): Promise<StartedClock | undefined> {
  const { record, states, incidents, atMs } = past;
  const { anchorMs } = record.live;
  if (anchorMs !== undefined && anchorMs <= atMs) {
    return { atMs: anchorMs, by: await classifyStart(tx, past, anchorMs) };
  }
  const keptMs = atMs - KEPT_MS;
  const end = await findBeat(tx, record, {
    ...{ kinds: record.beatenBy === undefined ? ENDS : BEATS, order: 'last' },
    ...{ sinceMs: keptMs, untilMs: atMs },
  });
  const fromMs = (beat: NonNullable<typeof end>) => {
    const timing = beat.kind === 'start' ? states.at(-1)?.timing : undefined;
    return timing ? slotOfStart(timing, beat.receivedMs) : beat.receivedMs;
  };
  const starts = [end && { atMs: fromMs(end), by: end.kind }, findStart(states, end !== undefined)];
  const begin = starts.filter((one) => one !== undefined).sort((a, b) => b.atMs - a.atMs)[0];
  const resolved = await findResolvedSilence(tx, record, atMs);
  const newest =
    resolved && wasSilent(past, begin, resolved)
      ? { atMs: resolved.resolvedMs, by: 'resolve' as const }
      : begin;
  const missedMs = missedAt(incidents)?.sinceMs ?? 0;
  const decidedMs = Math.max(newest?.atMs ?? 0, missedMs);
  if (end === undefined) await requireStartKept(tx, record, { sinceMs: keptMs, untilMs: atMs, decidedMs });
  // A start begins a clock where none runs.
  const afterMissed =
    missedMs < decidedMs || missedMs === 0 ? undefined : await findFirst(tx, past, missedMs);
  return afterMissed ?? newest ?? (await findFirst(tx, past, keptMs));
}

/** The first beat of the kind `start` since `sinceMs`. */
async function findFirst(
  tx: Queryable,
  { record, atMs }: KnownPast,
  sinceMs: number,
): Promise<StartedClock | undefined> {
  const span = { sinceMs, untilMs: atMs };
  const start = await findBeat(tx, record, { kinds: ['start'], ...span, order: 'first' });
  return start && { atMs: start.receivedMs, by: 'start' };
}

/** Whether no clock ran when the incident of a silence was resolved, so that one was started. */
function wasSilent(
  { states }: KnownPast,
  start: StartedClock | undefined,
  { openedMs, resolvedMs }: { openedMs: number; resolvedMs: number },
): boolean {
  if (start === undefined || start.atMs < openedMs) return true;
  const before = states.filter(({ occurredMs }) => occurredMs <= resolvedMs);
  const { timing } = before.at(-1) ?? {};
  if (!timing || start.atMs > resolvedMs) return false;
  return hasPassed(timing, replay(before, start, {}, openedMs), resolvedMs);
}

/** What started the clock at a moment that the live row names. */
export async function classifyStart(
  tx: Queryable,
  { record, states }: Pick<KnownPast, 'record' | 'states'>,
  anchorMs: number,
): Promise<ClockStart> {
  const moment = { sinceMs: anchorMs, untilMs: anchorMs };
  const beat = await findBeat(tx, record, { kinds: BEATS, ...moment, order: 'last' });
  if (beat) return beat.kind;
  const state = states.findLast(({ occurredMs }) => occurredMs === anchorMs);
  if (state) {
    if (state.change.kind === 'lifecycle') return state.change.action;
    return state.configurationVersion === 1 ? 'creation' : 'configuration';
  }
  if ((await findResolvedSilence(tx, record, anchorMs))?.resolvedMs === anchorMs) return 'resolve';
  if (anchorMs === record.live.lastSuccessMs) return 'success';
  if (record.beatenBy !== undefined) {
    const early = { sinceMs: anchorMs - EARLY_START_MS, untilMs: anchorMs, order: 'last' } as const;
    const start = await findBeat(tx, record, { kinds: BEATS, ...early });
    if (start) return start.kind;
  }
  // All else that starts a clock has a record, as long as records are kept.
  const isKept = anchorMs > record.nowMs - KEPT_MS && states.length < MOST_CHANGES;
  return isKept ? 'refused' : 'unknown';
}

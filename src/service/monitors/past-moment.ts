// Which moments of a monitor's past can be explained (docs/contract/monitors.md): those of which everything is kept.
import type { BeatKind } from '../../domain/beat.ts';
import { type Plan, planLimitReached, retentionExceeded } from '../../domain/plan.ts';
import { invalidField } from '../../domain/problem.ts';
import { DAY_MS, KEPT_DAYS } from '../../domain/retention.ts';
import { toTime } from '../../domain/timestamp.ts';
import { findBeat } from '../../store/beats/observations-read.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

/** What sets `lastBeatAt`. */
export const BEATS: readonly BeatKind[] = ['success', 'fail', 'start'];

/** How far back a moment may lie: as long as observations are kept. */
export const KEPT_MS = KEPT_DAYS.observations * DAY_MS;
/** The newest changes that are looked at. Of more changes in one silence the newest decide. */
export const MOST_CHANGES = 100;

/**
 * Throws `plan_limit_reached` for a moment that a larger plan would keep, and `validation_failed` for one that none keeps.
 * Undefined: now.
 */
export function requireKept({ nowMs, createdMs }: MonitorRecord, plan: Plan, atMs: number | undefined): void {
  if (atMs === undefined) return;
  if (atMs > nowMs) throw invalidField('at', 'Must not be in the future.', 'in_future');
  if (atMs < createdMs) {
    const created = toTime(createdMs);
    throw invalidField('at', `Must not be before the monitor was created, at ${created}.`, 'before_creation');
  }
  const keptMs = plan.observationRetentionSeconds * 1000;
  if (atMs >= nowMs - keptMs) return;
  if (atMs >= nowMs - KEPT_MS) throw planLimitReached(plan, retentionExceeded(plan, nowMs - atMs), 'at');
  throw invalidField('at', `Must be at most ${keptMs / DAY_MS} days ago.`, 'too_early');
}

/**
 * Of a moment before which no beat is kept. Throws `validation_failed` if there were any: what was deleted, under this plan
 * or a smaller one before it, is no silence.
 */
export async function requireBeats(db: Queryable, record: MonitorRecord, atMs: number): Promise<void> {
  const { nowMs, live } = record;
  if (live.firstBeatMs === undefined || live.firstBeatMs > atMs) return;
  const span = { sinceMs: atMs, untilMs: nowMs, order: 'first' } as const;
  const first = await findBeat(db, record, { ...span, kinds: BEATS });
  throw notKept(first?.receivedMs ?? live.lastBeatMs ?? nowMs);
}

/**
 * Of a moment at which no success or fail is kept, so that all that is kept are starts, which move no clock that runs. Throws
 * `validation_failed` if a beat that is deleted may have started the clock. `sinceMs` to `untilMs`, the moment: where beats
 * are kept; `decidedMs`: the newest of all else that starts or stops a clock.
 */
export async function requireStartKept(
  db: Queryable,
  record: MonitorRecord,
  { sinceMs, untilMs, decidedMs }: { sinceMs: number; untilMs: number; decidedMs: number },
): Promise<void> {
  const { nowMs, live } = record;
  const first = await findBeat(db, record, { kinds: BEATS, sinceMs, untilMs, order: 'first' });
  if (!first || first.receivedMs <= (live.firstBeatMs ?? 0) || decidedMs >= first.receivedMs) return;
  const span = { sinceMs: untilMs, untilMs: nowMs, order: 'first' } as const;
  const end = await findBeat(db, record, { ...span, kinds: ['success', 'fail'] });
  throw notKept(Math.min(end?.receivedMs ?? nowMs, live.anchorMs ?? nowMs));
}

function notKept(firstMs: number): Error {
  const from = toTime(firstMs);
  return invalidField('at', `Must not be before ${from}: earlier beats are not kept any more.`, 'not_kept');
}

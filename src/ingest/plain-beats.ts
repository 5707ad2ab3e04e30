// Plain beats: successes without detail, to monitors with a fixed interval, no rules and nothing open. One statement writes them.
// A monitor that the database finds in another state comes back `ineligible`: beat-transaction.ts writes its beats.
import { serviceProblem } from '../domain/plan.ts';
import { type PlainBeats, writePlainBeats } from '../store/beats/beats.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import type { BeatItem, BeatOutcome } from './apply-items.ts';
import type { LaneBatch } from './lane.ts';

/** Whether an item is plain, as far as the cached configuration shows. */
export function isPlain({ entry, beat, idempotencyKey }: BeatItem): boolean {
  if ('problem' in beat || idempotencyKey !== undefined) return false;
  // On Citus the one statement takes part of every machine in its commit: the transaction is cheaper.
  if (entry.shard !== undefined) return false;
  if (beat.kind !== 'success' || entry.endsMs !== undefined) return false;
  const { kind: _, ...details } = beat;
  for (const detail of Object.values(details)) if (detail !== undefined) return false;
  const { timing } = entry.monitor;
  return (
    entry.rules === undefined &&
    timing.lifecycle === 'active' &&
    timing.intervalMs !== undefined &&
    timing.schedule === undefined &&
    timing.maintenance === undefined &&
    timing.recurrence === undefined &&
    serviceProblem(entry.tenant.serviceState) === undefined
  );
}

/** Writes plain items in one statement, durable when it returns. The outcomes are in the order of the items. */
export async function runPlainBeats(
  connection: Queryable,
  items: readonly BeatItem[],
  lane: LaneBatch & { skipsLocked?: boolean },
): Promise<(BeatOutcome | 'ineligible')[]> {
  const beats = new Map<string, PlainBeats>();
  for (const { entry } of items) {
    const { monitor } = entry;
    const beat = beats.get(monitor.monitorKey);
    if (beat) beat.count += 1;
    else beats.set(monitor.monitorKey, toPlainBeats(entry));
  }
  const inKeyOrder = [...beats.values()].sort(byKey);
  const results = await writePlainBeats(connection, inKeyOrder, lane, lane);
  const written = new Map(results.map((result) => [result.monitorKey, { ...result, left: 0 }]));
  for (const [key, { count }] of beats) {
    const result = written.get(key);
    if (result) result.left = count;
  }
  return items.map(({ entry: { monitor } }) => {
    const result = written.get(monitor.monitorKey);
    const beat = beats.get(monitor.monitorKey);
    if (!result || !beat) return 'ineligible';
    result.left -= 1;
    return {
      answer: {
        monitorId: monitor.monitorId,
        sequence: result.lastSequence - result.left,
        receivedAt: new Date(result.nowMs).toISOString(),
        nextDeadlineAt: new Date(result.nowMs + beat.intervalMs + beat.graceMs).toISOString(),
      },
    };
  });
}

function toPlainBeats({ monitor, tenant }: BeatItem['entry']): PlainBeats {
  const { projectId, monitorKey, configurationVersion, timing } = monitor;
  return {
    projectId,
    monitorKey,
    configurationVersion,
    count: 1,
    intervalMs: timing.intervalMs ?? 0,
    graceMs: timing.graceMs,
    perMinute: tenant.plan.beatsPerMinute,
  };
}

/** The order in which lockLive locks: by project, then by monitor. */
function byKey(a: PlainBeats, b: PlainBeats): number {
  if (a.projectId !== b.projectId) return a.projectId < b.projectId ? -1 : 1;
  return a.monitorKey < b.monitorKey ? -1 : 1;
}

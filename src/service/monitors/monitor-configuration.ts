// Changes of a monitor's configuration. The contract defines how a patch is merged: the api passes the merge in.
import { isDeepStrictEqual } from 'node:util';
import {
  refitClock,
  refitRuns,
  releaseRuns,
  startClock,
  stopClock,
  withWakeAfterChange,
} from '../../domain/deadline.ts';
import type { LiveState, MonitorConfiguration, Timing, TimingConfiguration } from '../../domain/monitor.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { requireDependencies } from './dependencies.ts';
import { lockMonitor, saveMonitor, timingOf, type VersionedName } from './monitor-access.ts';
import { requireAllowedCadence } from './monitor-cadence.ts';
import { type RulePath, requireAllowedRules } from './monitor-rules.ts';
import { endRemovedRules } from './removed-rules.ts';

/** Makes the new configuration from the current one. Throws `validation_failed`. */
export type Merge = (current: MonitorConfiguration) => MonitorConfiguration;

export interface ConfigurationChange {
  name: VersionedName;
  merge: Merge;
  /** Default: in a patch. */
  pathOfRule?: RulePath;
}

const pathInPatch: RulePath = (key, field) => `patch.measurements.${key}.${field}`;

/**
 * Changes the configuration. The same configuration keeps its version, and nothing is written.
 * Throws `not_found`, `conflict`, `precondition_failed`, `plan_limit_reached` and what `merge` throws.
 */
export async function changeConfiguration(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  { name, merge, pathOfRule = pathInPatch }: ConfigurationChange,
): Promise<MonitorRecord> {
  const locked = await lockMonitor(tx, context, name);
  const { record, timing, nowMs } = locked;
  const configuration = merge(record.configuration);
  if (isSame(record.configuration, configuration)) return record;
  const plan = context.findPlan(record.planId);
  if (!isSame(cadenceOf(record.configuration), cadenceOf(configuration))) {
    requireAllowedCadence(plan, configuration, nowMs, 'patch.');
  }
  const rules = { before: record.configuration.measurements, after: configuration.measurements };
  requireAllowedRules(plan, rules, pathOfRule);
  await requireDependencies(
    tx,
    { ...record, dependsOn: configuration.dependsOn },
    { before: record.configuration.dependsOn, prefix: 'patch.' },
  );
  const hasSameRules = isSame(rules.before, rules.after);
  const judged = hasSameRules ? record : await endRemovedRules(tx, locked, rules.after, caller.actor);
  const changed = { ...judged, configuration };
  const fitted = refit({ before: timing, after: timingOf(context, changed) }, changes(record, changed), {
    live: judged.live,
    isMissed: record.openIncidents.some(({ kind }) => kind === 'missed_deadline'),
    nowMs,
  });
  const live = isSame(record.configuration.dependsOn ?? [], configuration.dependsOn ?? [])
    ? fitted
    : withWakeAfterChange(timingOf(context, changed), lookAgain(fitted, nowMs), nowMs);
  const change = { kind: 'configuration' } as const;
  return await saveMonitor(tx, caller, { record: changed, live, change }, nowMs);
}

/** What is held or suppressed may be so no more. */
function lookAgain(live: LiveState, nowMs: number): LiveState {
  return live.holdMs === undefined ? live : { ...live, holdMs: Math.min(live.holdMs, nowMs) };
}

function cadenceOf({ intervalSeconds, schedule }: TimingConfiguration) {
  return { intervalSeconds, schedule };
}

/** Compares as stored: an undefined field is an absent one. */
function isSame(one: object, other: object): boolean {
  return isDeepStrictEqual(JSON.parse(JSON.stringify(one)), JSON.parse(JSON.stringify(other)));
}

interface TimingChanges {
  deadline: boolean;
  runs: boolean;
}

/** Which parts of the timing a change of the configuration concerns. */
export function changes(
  before: { configuration: TimingConfiguration },
  after: { configuration: TimingConfiguration },
): TimingChanges {
  const [old, now] = [before.configuration, after.configuration];
  const isSameWindow = isSame(old.maintenanceSchedules ?? [], now.maintenanceSchedules ?? []);
  const isSameCadence = isSame(cadenceOf(old), cadenceOf(now)) && old.graceSeconds === now.graceSeconds;
  const deadline = !isSameCadence || !isSameWindow;
  return { deadline, runs: old.maxRuntimeSeconds !== now.maxRuntimeSeconds };
}

/** The live state under the new timing. Parts that did not change keep their moments. */
export function refit(
  timing: { before: Timing; after: Timing },
  changed: TimingChanges,
  { live, isMissed, nowMs }: { live: LiveState; isMissed: boolean; nowMs: number },
): LiveState {
  const { before, after } = timing;
  const fitted = changed.deadline ? refitClock(after, live, nowMs, isMissed) : live;
  // A window may go with the change.
  const released = changed.deadline ? releaseRuns(before, live.openRuns, nowMs) : live.openRuns;
  const openRuns = changed.runs ? refitRuns(after, released, nowMs) : released;
  const kept = { ...fitted, openRuns };
  const clocked = before.awaitFirstBeat === after.awaitFirstBeat ? kept : refitFirstBeat(after, kept, nowMs);
  return withWakeAfterChange(after, clocked, nowMs);
}

/** Before the first beat, awaitFirstBeat decides whether the clock runs. */
function refitFirstBeat(timing: Timing, live: LiveState, nowMs: number): LiveState {
  if (timing.lifecycle !== 'active' || live.firstBeatMs !== undefined) return live;
  if (timing.awaitFirstBeat) return { ...stopClock(live), anchorMs: undefined };
  return live.anchorMs === undefined ? startClock(timing, live, nowMs) : live;
}

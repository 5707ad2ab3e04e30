// A monitor in the domain: its stored configuration, and its timing and live state, from which the domain decides.
// Times are in ms.
import type { Severity } from './incident.ts';
import { compileKubernetesSchedule } from './kubernetes-schedule.ts';
import {
  type Maintained,
  type MaintenanceSchedule,
  type MaintenanceWindow,
  recurrenceOf,
  windowAt,
} from './maintenance.ts';
import { compileSchedule, type Schedule, ScheduleError, type ScheduleSpec } from './schedule.ts';

export const LIFECYCLES = ['active', 'paused', 'archived'] as const;
export type Lifecycle = (typeof LIFECYCLES)[number];

export const JURISDICTIONS = ['unrestricted', 'eu', 'us', 'fedramp'] as const;
export type Jurisdiction = (typeof JURISDICTIONS)[number];

export const HEALTHS = [
  'waiting',
  'up',
  'late',
  'down',
  'recovering',
  'maintenance',
  'paused',
  'archived',
] as const;
export type Health = (typeof HEALTHS)[number];

/** What a caller configures, and PATCH changes. */
export interface MonitorConfiguration {
  name: string;
  description?: string;
  labels: Record<string, string>;
  intervalSeconds?: number;
  schedule?: ScheduleSpec;
  graceSeconds: number;
  awaitFirstBeat: boolean;
  maxRuntimeSeconds?: number;
  recoveryBeats: number;
  missedBeatsToOpen: number;
  /** Undefined: none. */
  maintenanceSchedules?: MaintenanceSchedule[];
  /** Ids of monitors of the project and the jurisdiction. Undefined: none. */
  dependsOn?: string[];
  measurements: Record<string, MeasurementRule>;
}

/** The rules of one measurement as the caller stated them: an absent field has its default. */
export interface MeasurementRule {
  metricType?: 'gauge' | 'count' | 'rate' | 'duration' | 'counter' | 'size';
  minimum?: number;
  maximum?: number;
  maximumAbsoluteDelta?: number;
  maximumPercentageDelta?: number;
  zeroExpectation?: 'zero' | 'nonzero';
  ratio?: { denominator: string; minimum?: number; maximum?: number };
  missingPolicy?: 'skip' | 'zero' | 'reject';
  transform?: 'none' | 'log1p';
  unit?: string;
  ruleAction?: { mode: 'inactive' | 'active'; version: 1 };
  rulePolicy?: ConsecutivePolicy | SustainedPolicy;
  mode?: 'heartbeat';
}

export interface ConsecutivePolicy {
  consecutiveObservations: number;
  severity: Severity;
}

export interface SustainedPolicy {
  version: 1;
  transientConsequence: 'none' | Severity;
  sustainedConsequence: 'none' | Severity;
  sustainedCriterion:
    | { kind: 'observations'; observations: number }
    | { kind: 'elapsed_time'; seconds: number };
}

/** The part of a configuration that decides about time and incidents. */
export type TimingConfiguration = Omit<
  MonitorConfiguration,
  'name' | 'description' | 'labels' | 'measurements'
>;

/** The timing with everything else that decides: lifecycle, maintenance and the installation's floor. */
export interface Timing extends Maintained {
  lifecycle: Lifecycle;
  /** Undefined with a schedule, and when the cadence is learned. */
  intervalMs?: number;
  schedule?: Schedule;
  graceMs: number;
  /** No deadline runs before the first beat. */
  awaitFirstBeat: boolean;
  maxRuntimeMs?: number;
  recoveryBeats: number;
  missedBeatsToOpen: number;
  /** Alerts are held until it is known whether one of these monitors is down. Undefined: none. */
  dependsOn?: readonly string[];
  /** Floor of a learned cadence: 60 s, lower in development. */
  minimumIntervalMs: number;
  /**
   * An operator beats it, which tells of each end: a run that began in time may last until the next one is due. Its alerts are held
   * until the operator has said what it sees.
   */
  startsMove?: boolean;
}

/** What decides about time beside the configuration. */
export interface TimingState {
  lifecycle: Lifecycle;
  maintenance?: MaintenanceWindow;
  /** A person has ended a window of schedules: none that begins before this counts. */
  recursSinceMs?: number;
  /** The operator that beats it. */
  beatenBy?: string;
}

/** The timing of a stored configuration. */
export function toTiming(
  configuration: TimingConfiguration,
  state: TimingState,
  minimumIntervalMs: number,
): Timing {
  return {
    lifecycle: state.lifecycle,
    intervalMs: toMs(configuration.intervalSeconds),
    schedule: toSchedule(configuration.schedule, state.beatenBy !== undefined),
    graceMs: configuration.graceSeconds * 1000,
    awaitFirstBeat: configuration.awaitFirstBeat,
    maxRuntimeMs: toMs(configuration.maxRuntimeSeconds),
    recoveryBeats: configuration.recoveryBeats,
    missedBeatsToOpen: configuration.missedBeatsToOpen,
    maintenance: state.maintenance,
    recurrence: recurrenceOf(configuration.maintenanceSchedules, state.recursSinceMs),
    dependsOn: configuration.dependsOn,
    minimumIntervalMs,
    startsMove: state.beatenBy === undefined ? undefined : true,
  };
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/**
 * A stored schedule was valid when it was written. If this build's time zones no longer know it, its monitor has no
 * deadline: an error here would stop every other monitor of the batch. `isOfKubernetes`: an operator beats it for a CronJob.
 */
function toSchedule(spec: ScheduleSpec | undefined, isOfKubernetes: boolean): Schedule | undefined {
  if (!spec) return undefined;
  // Compiled when it is first asked: that takes longer than all else that is done with most monitors.
  let compiled: Schedule | undefined;
  return {
    nextAfter: (afterMs) => {
      compiled ??= (isOfKubernetes ? compileKubernetesSchedule(spec) : undefined) ?? compileStored(spec);
      return compiled.nextAfter(afterMs);
    },
  };
}

function compileStored(spec: ScheduleSpec): Schedule {
  try {
    return compileSchedule(spec);
  } catch (error) {
    if (error instanceof ScheduleError) return { nextAfter: () => undefined };
    throw error;
  }
}

export interface OpenRun {
  runId?: string;
  startedMs: number;
  /** When it began by the clock of its sender, where the start said so. For its duration alone. */
  observedMs?: number;
  /** From when on its limit counts, where that is not its start: it was given its full time again. */
  countedFromMs?: number;
  /**
   * When it becomes overdue, or at the end of a maintenance window that this falls into. Undefined without a
   * `maxRuntimeSeconds`, and with `mayHaveEnded`.
   */
  dueMs?: number;
  /** An outage may have swallowed its end: it gets no limit any more, whatever is changed. */
  mayHaveEnded?: boolean;
  /** It has been reported. */
  overdue?: boolean;
}

/** One row of monitor_live, without its keys. */
export interface LiveState {
  wakeMs?: number;
  deadlineMs?: number;
  lastSequence: number;
  firstBeatMs?: number;
  lastBeatMs?: number;
  lastSuccessMs?: number;
  /** How long the newest run took that has ended and whose start was reported. */
  lastDurationMs?: number;
  anchorMs?: number;
  missedCount: number;
  openIncidents: number;
  openRuns: OpenRun[];
  gaps: number[];
  gapBroken: boolean;
  cadenceMs?: number;
  tokens?: number;
  tokensMs?: number;
  /**
   * The first deadline of this silence, before outages of the service moved it and before any deadline passed. Undefined
   * while `deadlineMs` is that deadline.
   */
  unmovedMs?: number;
  /**
   * The monitor rests since then: its deadline passed while the organization was suspended, and none runs until the
   * organization is active again (docs/contract/organization.md).
   */
  restsSinceMs?: number;
  /**
   * Beats that the service could not take (docs/contract/deadlines.md): the arrival of the first and of the newest, and
   * how many. They count while the newest is not older than `anchorMs`.
   */
  excusedFromMs?: number;
  excusedMs?: number;
  excusedBeats?: number;
  /** When the time alone makes a violated rule graver, if no beat comes (docs/contract/rules.md), or `AFTER_A_BEAT`. */
  escalatesMs?: number;
  /**
   * When a start moved the clock of a monitor that an operator beats. The next one moves it only after an end: runs that hang, or
   * replace each other, must not put off the deadline for ever.
   */
  startMovedMs?: number;
  /** When it is decided about held and suppressed alerts (`held-alerts.ts`). Undefined: there are none. */
  holdMs?: number;
  /**
   * The window of maintenance schedules that runs or comes, as of the last wake or change: for those who search monitors
   * in maintenance. What decides asks the schedules.
   */
  recursFromMs?: number;
  recursUntilMs?: number;
  /** What its rules remember of past successes: as `encodeStates` writes it (docs/adr/0009). */
  ruleStates?: string;
}

/** In place of a moment that never comes: a beat was refused since the last success, and the next success decides. */
export const AFTER_A_BEAT = Number.MAX_SAFE_INTEGER;

export interface Outage {
  fromMs: number;
  toMs: number;
}

/** The state of a new monitor: no beat, no clock. */
export function newLiveState(): LiveState {
  return {
    lastSequence: 0,
    missedCount: 0,
    openIncidents: 0,
    openRuns: [],
    gaps: [],
    gapBroken: false,
  };
}

/** The reason why no incident opens and no alert is sent now (docs/contract/incidents.md), or undefined. */
export function suppression(timing: Timing, nowMs: number): 'paused' | 'maintenance' | undefined {
  if (timing.lifecycle === 'paused') return 'paused';
  return windowAt(timing, nowMs) ? 'maintenance' : undefined;
}

// What is known of a monitor at one moment, now or in the past, and the explanation that is made of it
// (docs/contract/monitors.md).
import type { BeatKind } from '../beat.ts';
import type { UnavailableReason } from '../callback.ts';
import type { Actor, IncidentKind, IncidentState, Severity, SuppressingIncident } from '../incident.ts';
import type { LifecycleAction } from '../lifecycle.ts';
import type { Health, LiveState, Outage, Timing } from '../monitor.ts';
import type { NamedCause } from '../operator-cause.ts';
import type { OperatorSigns } from '../operator-sign.ts';
import type { ServiceState } from '../problem.ts';
import type { ExplainedRule, RulesThen } from './explain-rules.ts';

/**
 * What set the anchor of the running clock. `refused`: a beat that was refused for its content and is not recorded, or the
 * return of the organization from a suspension.
 */
export type ClockStart =
  | BeatKind
  | LifecycleAction
  | 'creation'
  | 'configuration'
  | 'resolve'
  | 'refused'
  | 'unknown';

/** What a sentence says of an incident. */
export interface Cause {
  kind: IncidentKind;
  state: IncidentState;
  severity: Severity;
  deadlineMs?: number;
  summary: string;
  /** Since when it is in its state. */
  sinceMs: number;
}

/** An incident as it was at the moment. */
export interface IncidentThen extends Cause {
  incidentId: string;
  openedMs: number;
  /** When its last alert was due. */
  alertedMs?: number;
  /** Until then its alert is held, as far as that is known: of the past it is not. */
  heldMs?: number;
  /** Its events that were not sent. */
  suppressed: readonly {
    atMs: number;
    event: string;
    reason: string;
    by?: SuppressingIncident | NamedCause;
  }[];
}

/** What the sentence is made of. */
export interface State {
  atMs: number;
  timing: Timing;
  live: LiveState;
  /** Those that had not ended, oldest first. */
  incidents: readonly Cause[];
  /** As `mergeOutages` returns them: of the service, and of the operator that beats the monitor. */
  outages: readonly Outage[];
  /** That beats the monitor, with the outages of the service alone. */
  operator?: OperatorSigns & { serviceOutages: readonly Outage[] };
  /** Moments of the changes since the clock started, oldest first. */
  changes: readonly number[];
  /** The newest lifecycle action. */
  action?: { atMs: number; actor: Pick<Actor, 'display'> };
  /** A cadence was learned then, and which one is not kept. */
  isCadenceLost?: boolean;
  /** Of the organization; undefined of the past: it is not kept. */
  serviceState?: ServiceState;
  /** Since when the organization is suspended, where that is known. */
  suspendedMs?: number;
  /** The deadline that passed while the organization was suspended and rests, also where no sweeper has seen it yet. */
  restsSinceMs?: number;
}

export interface Situation extends State {
  incidents: readonly IncidentThen[];
  start?: ClockStart;
  /** Why the alerts of the binding go nowhere. */
  unbound?: UnavailableReason | 'binding_disabled';
  /** Absent where nobody asks for them, or the monitor has none. */
  rules?: RulesThen;
}

export const DEADLINE_PARTS = [
  'last_beat',
  'clock_start',
  'interval',
  'cron',
  'learned',
  'grace',
  'maintenance',
  'service_outage',
  'refused_beat',
  'paused',
  'waiting',
] as const;

export interface DeadlinePart {
  kind: (typeof DEADLINE_PARTS)[number];
  atMs?: number;
  /** What it adds. */
  ms?: number;
  /** Of what deadlines add that passed before without a beat: how many. */
  missed?: number;
  /** Of what outages add: where some were of the operator, whose they were. */
  whose?: 'operator' | 'both';
  note: string;
}

export interface ExplainedDeadline {
  /** Undefined while none runs. */
  atMs?: number;
  /** The first one has a moment; it and what the others add make the deadline. */
  parts: DeadlinePart[];
}

export const SILENCE_REASONS = [
  'paused',
  'archived',
  'maintenance',
  'dependency',
  'no_organization_default',
  'alias_not_found',
  'endpoint_disabled',
  'endpoint_removed',
  'binding_disabled',
  'recent_alert',
  'rule_inactive',
  'service_suspended',
  'no_operator',
] as const;

export interface Silence {
  reason: (typeof SILENCE_REASONS)[number];
  untilMs?: number;
  note: string;
}

export interface Explanation {
  health: Health;
  because: string;
  deadline: ExplainedDeadline;
  rules: ExplainedRule[];
  silence: Silence[];
}

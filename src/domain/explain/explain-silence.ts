// Everything that keeps an alert of a monitor from being sent. Pure.
import { REALERT_MS } from '../incident.ts';
import { windowAt } from '../maintenance.ts';
import type { Timing } from '../monitor.ts';
import { causeWords } from '../operator-cause.ts';
import { silenceOf } from '../operator-sign.ts';
import { serviceProblem } from '../plan.ts';
import { inMaintenance } from './explain-deadline.ts';
import type { ExplainedRule } from './explain-rules.ts';
import type { IncidentThen, Silence, Situation } from './situation.ts';
import { timeWords } from './words.ts';

const UNBOUND: Record<NonNullable<Situation['unbound']>, string> = {
  binding_disabled: 'The binding of the monitor is disabled: its alerts go nowhere.',
  no_organization_default: 'Alerts go to the default endpoint of the organization, and it has none.',
  alias_not_found: 'No callback endpoint has the alias that the monitor names.',
  endpoint_disabled: 'The callback endpoint of the monitor is disabled.',
  endpoint_removed: 'The callback endpoint of the monitor is removed.',
};

export function explainSilence(situation: Situation, rules: readonly ExplainedRule[]): Silence[] {
  const { timing, unbound, incidents, serviceState } = situation;
  const found: Silence[] = [];
  if (timing.lifecycle === 'paused') {
    found.push({ reason: 'paused', note: 'The monitor is paused: nothing opens.' });
  }
  if (timing.lifecycle === 'archived') {
    found.push({ reason: 'archived', note: 'The monitor is archived: nothing opens.' });
  }
  if (inMaintenance(situation)) {
    const untilMs = windowAt(timing, situation.atMs)?.endsMs;
    found.push({ reason: 'maintenance', untilMs, note: 'A maintenance window runs: nothing opens.' });
  }
  if (serviceState && serviceProblem(serviceState)) {
    const note = `The organization is ${serviceState}: nothing opens, and a deadline that passes rests until it returns.`;
    found.push({ reason: 'service_suspended', note });
  }
  found.push(...noOperator(situation));
  if (unbound) found.push({ reason: unbound, note: UNBOUND[unbound] });
  for (const incident of incidents) {
    found.push(
      ...recentAlert(incident, situation.atMs),
      ...held(incident, timing),
      ...notSent(incident, situation.atMs),
    );
  }
  return [...found, ...rules.flatMap(inactiveRule)];
}

/** The operator that beats the monitor is silent: nothing that falls due after its last sign is judged. */
function noOperator({ operator, timing, atMs }: Situation): Silence[] {
  if (!operator || timing.lifecycle !== 'active') return [];
  const { isSilent, sinceMs } = silenceOf(operator, atMs);
  if (!isSilent) return [];
  const since = sinceMs === undefined ? '' : ` since ${timeWords(sinceMs, atMs)}`;
  const note = `No operator has reported${since}: nothing that falls due later is judged before it does.`;
  return [{ reason: 'no_operator', note }];
}

/** A rule that is broken now, and opens nothing. */
function inactiveRule({ measurement, rule, isActive, violationsInRow }: ExplainedRule): Silence[] {
  if (isActive || violationsInRow === 0) return [];
  const note = `The rule ${rule} of ${measurement} is broken and inactive: it opens nothing.`;
  return [{ reason: 'rule_inactive', note }];
}

/** An incident that opens again soon after its last alert sends no second one. */
function recentAlert({ incidentId, state, alertedMs }: IncidentThen, atMs: number): Silence[] {
  if (state !== 'recovering' || alertedMs === undefined) return [];
  const untilMs = alertedMs + REALERT_MS;
  if (alertedMs > atMs || untilMs <= atMs) return [];
  const alerted = timeWords(alertedMs, atMs);
  const note = `If ${incidentId} opens again, it sends no second alert so soon after that of ${alerted}.`;
  return [{ reason: 'recent_alert', untilMs, note }];
}

/** It is not known yet whether the alert of a cause stands for it. */
function held({ incidentId, heldMs: untilMs, suppressed }: IncidentThen, timing: Timing): Silence[] {
  if (untilMs === undefined) return [];
  const by = suppressed.findLast(({ reason }) => reason === 'dependency');
  return [{ reason: 'dependency', untilMs, note: heldNote(incidentId, by, timing) }];
}

function heldNote(
  incidentId: string,
  suppressed: IncidentThen['suppressed'][number] | undefined,
  { dependsOn, startsMove: isBeaten }: Timing,
): string {
  if (suppressed) {
    const isSeen = suppressed.by && 'cause' in suppressed.by;
    const what = isSeen
      ? `The cause of ${incidentId} is over`
      : `What ${incidentId} depended on has recovered`;
    return `${what}: its alert waits for a beat until then.`;
  }
  const asked = [
    ...(dependsOn ? ['a monitor that this one depends on is down'] : []),
    ...(isBeaten ? ['its operator sees a cause of it'] : []),
  ];
  return `The alert of ${incidentId} waits to see whether ${asked.join(', or ') || 'another one stands for it'}.`;
}

const REASONS: Record<string, Silence['reason']> = {
  paused: 'paused',
  maintenance: 'maintenance',
  dependency: 'dependency',
  disabled: 'binding_disabled',
  no_organization_default: 'no_organization_default',
  alias_not_found: 'alias_not_found',
  endpoint_disabled: 'endpoint_disabled',
  endpoint_removed: 'endpoint_removed',
};

/** Events that were not sent, of an incident that is not over: only one that a cause suppresses may be sent later. */
function notSent({ incidentId, suppressed }: IncidentThen, atMs: number): Silence[] {
  return suppressed.flatMap((one) => {
    const reason = REASONS[one.reason];
    const when = timeWords(one.atMs, atMs);
    const why = one.by ? `: ${whyNot(one.by)}` : '';
    return reason ? [{ reason, note: `${one.event} of ${incidentId} was not sent at ${when}${why}.` }] : [];
  });
}

function whyNot(by: NonNullable<IncidentThen['suppressed'][number]['by']>): string {
  return 'cause' in by
    ? `the alert of another monitor says that ${lowered(causeWords(by))}`
    : `${by.monitorId}, which it depends on, was down (${by.incidentId})`;
}

const lowered = (words: string) => `${words.charAt(0).toLowerCase()}${words.slice(1)}`;

// The answer to a test beat (docs/contract/beats.md).
import type { OperationOutput } from '../../contract/operations/operations.ts';
import type { IncidentChange, TimelineEntry, Transition } from '../../domain/incident.ts';
import { type FieldError, type ProblemError, WHOLE_BODY } from '../../domain/problem.ts';
import type { BeatTest } from '../../service/monitors/test-beat.ts';

export function presentBeatTest({ problem, transitions, violations }: BeatTest): OperationOutput<'testBeat'> {
  return {
    accepted: problem === undefined,
    violations: [...violations],
    incidentChanges: transitions.flatMap(presentTransition),
    fieldErrors: problem ? faultsOf(problem) : [],
  };
}

/** None for an incident that only counts the beat. */
function presentTransition({ incident, isNew, entries }: Transition) {
  const change = changeOf({ incident, isNew, entries });
  if (change === undefined) return [];
  const { kind, measurement, rule, severity } = incident;
  return [{ kind, change, measurement, rule, severity }];
}

/** One that opens again and gets graver at once opens: `severity` says how grave it is then. */
function changeOf({
  incident,
  isNew,
  entries,
}: Pick<Transition, 'incident' | 'isNew' | 'entries'>): IncidentChange | undefined {
  const has = (wanted: TimelineEntry['type']) => entries.some(({ type }) => type === wanted);
  if (isNew || has('reopened')) return 'open';
  if (has('escalated')) return 'escalate';
  return incident.state === 'recovered' ? 'recover' : undefined;
}

/** At least one: a beat is refused for a reason. */
function faultsOf({ code, options }: ProblemError): FieldError[] {
  const { fieldErrors = [], detail } = options;
  return fieldErrors.length > 0 ? fieldErrors : [{ code, message: detail.slice(0, 512), path: WHOLE_BODY }];
}

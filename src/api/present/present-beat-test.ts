// The answer to a test beat (docs/contract/beats.md).
import type { OperationOutput } from '../../contract/operations/operations.ts';
import type { IncidentChange, Transition } from '../../domain/incident.ts';
import { type FieldError, type ProblemError, WHOLE_BODY } from '../../domain/problem.ts';
import type { BeatTest } from '../../service/monitors/test-beat.ts';

export function presentBeatTest({ problem, transitions }: BeatTest): OperationOutput<'testBeat'> {
  return {
    accepted: problem === undefined,
    violations: [],
    incidentChanges: transitions.flatMap(presentTransition),
    fieldErrors: problem ? faultsOf(problem) : [],
  };
}

/** None for an incident that only counts the beat. */
function presentTransition({ incident, isNew, entries }: Transition) {
  const opens = isNew || entries.some(({ type }) => type === 'reopened');
  const change: IncidentChange | undefined = opens
    ? 'open'
    : incident.state === 'recovered'
      ? 'recover'
      : undefined;
  if (change === undefined) return [];
  const { kind, measurement, rule, severity } = incident;
  return [{ kind, change, measurement, rule, severity }];
}

/** At least one: a beat is refused for a reason. */
function faultsOf({ code, options }: ProblemError): FieldError[] {
  const { fieldErrors = [], detail } = options;
  return fieldErrors.length > 0 ? fieldErrors : [{ code, message: detail.slice(0, 512), path: WHOLE_BODY }];
}

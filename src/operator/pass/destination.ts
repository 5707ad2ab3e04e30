// Whether the installation still sends to an address. Nothing announces that its administrator allows a destination no
// more, or that a name leads elsewhere now: the API is asked again now and then. No pass waits for its answer.
import { jitterMs } from '../../kube/backoff.ts';
import { findCondition } from '../../kube/conditions.ts';
import type { DestinationAnswer, DestinationChecks } from '../known/destination-checks.ts';
import { DESTINATION_REMEDY } from '../resources/remedies.ts';
import type { Pass } from './kind.ts';
import type { Fault, KnownDestination, ReconciledObject } from './object.ts';

export interface DestinationFacts {
  projectId: string;
  endpointId: string;
  url: string;
  /** About how often to ask. */
  periodMs: number;
  checks: Pick<DestinationChecks, 'ask'>;
  /** Called when the API has answered what is not shown yet. */
  changed(): void;
}

export const DESTINATION_REJECTED = 'DestinationRejected';

/** Undefined if the API sends to the address, as far as is known. */
export function destinationFault(
  { object, memory }: Pass,
  { projectId, endpointId, url, periodMs, checks, changed }: DestinationFacts,
): Fault | undefined {
  if (memory.destination === undefined) {
    // After a start, the last answer is the one that the status shows.
    const fault = shownDestinationFault(object);
    memory.destination = { url, fault, dueAtMs: fault === undefined ? firstDueMs(periodMs) : 0 };
    memory.isDestinationJudged = fault === undefined;
  } else if (memory.destination.url !== url) {
    // The API has checked the new one when it took it.
    memory.destination = { url, fault: undefined, dueAtMs: firstDueMs(periodMs) };
    memory.isDestinationJudged = true;
  }
  const known = memory.destination;
  const answered = (answer: DestinationAnswer) => {
    // The address may be another one by now.
    if (memory.destination !== known) return;
    known.dueAtMs = performance.now() + jitterMs(periodMs);
    // DNS that does not answer says nothing about what is allowed.
    if (answer.verdict === 'unknown') return;
    memory.isDestinationJudged = true;
    if (settle(known, answer)) changed();
  };
  // Long before it is due, so that one call can ask about many.
  const { dueAtMs } = known;
  if (dueAtMs - performance.now() < periodMs * 0.75)
    checks.ask({ projectId, endpointId, about: known, dueAtMs, answered });
  return known.fault;
}

/** What the status says: it stays as long as this process has not found out itself. */
export function shownDestinationFault({ status }: ReconciledObject): Fault | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  if (ready?.reason !== DESTINATION_REJECTED) return undefined;
  return { reason: ready.reason, message: ready.message };
}

/** Spread over the period, so that the start of an operator does not ask about all objects at once. */
function firstDueMs(periodMs: number): number {
  return performance.now() + (periodMs / 2) * (1 + Math.random());
}

/** False: it was known. */
function settle(known: KnownDestination, { verdict, detail }: DestinationAnswer): boolean {
  const before = known.fault?.message;
  known.fault =
    verdict === 'refused'
      ? {
          reason: DESTINATION_REJECTED,
          message: `The API sends no alerts to this address any more. ${detail} ${DESTINATION_REMEDY}`,
        }
      : undefined;
  return known.fault?.message !== before;
}

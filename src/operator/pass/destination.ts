// Whether the installation still sends to an address. Nothing announces that its administrator allows a destination no
// more, or that a name leads elsewhere now: the address is stated to the API again now and then, which checks it.
import { type ApiProblem, isProblem } from '../../client/api-problem.ts';
import { jitterMs } from '../../kube/backoff.ts';
import { findCondition } from '../../kube/conditions.ts';
import { isDestinationRefused } from '../resources/remedies.ts';
import type { Pass } from './kind.ts';
import type { Fault, ReconciledObject } from './object.ts';

export interface DestinationQuestion {
  url: string;
  /** About how often to ask. */
  periodMs: number;
  /** States the address to the API, which checks it and changes nothing. Throws ApiProblem. */
  ask(): Promise<void>;
  explain(problem: ApiProblem): string;
}

export const DESTINATION_REJECTED = 'DestinationRejected';

/** Undefined if the API sends to the address, as far as is known. Throws ApiProblem for an answer about something else. */
export async function findDestinationFault(
  { object, memory }: Pass,
  { url, periodMs, ask, explain }: DestinationQuestion,
): Promise<Fault | undefined> {
  const shown = shownDestinationFault(object);
  const known = memory.destination?.url === url ? memory.destination : undefined;
  // Spread over the period, so that the start of an operator does not ask about all objects at once.
  const dueAtMs =
    known?.dueAtMs ?? (shown !== undefined ? 0 : performance.now() + (periodMs / 2) * (1 + Math.random()));
  if (performance.now() < dueAtMs) {
    memory.destination = { url, fault: known?.fault, dueAtMs };
    return known?.fault;
  }
  // After a start, the last answer is the one that the status shows.
  const before = memory.destination === undefined ? shown : known?.fault;
  const fault = await askFor(before, ask, explain);
  memory.destination = { url, fault, dueAtMs: performance.now() + jitterMs(periodMs) };
  return fault;
}

/** What the status says: it stays as long as this process has not found out itself. */
export function shownDestinationFault({ status }: ReconciledObject): Fault | undefined {
  const ready = findCondition(status?.conditions, 'Ready');
  if (ready?.reason !== DESTINATION_REJECTED) return undefined;
  return { reason: ready.reason, message: ready.message };
}

async function askFor(
  before: Fault | undefined,
  ask: DestinationQuestion['ask'],
  explain: DestinationQuestion['explain'],
): Promise<Fault | undefined> {
  try {
    await ask();
    return undefined;
  } catch (error) {
    if (!isProblem(error, 'permanent')) throw error;
    // DNS that does not answer says nothing about what is allowed.
    if (!isDestinationRefused(error)) return before;
    const message = `The API sends no alerts to this address any more. ${explain(error)}`;
    return { reason: DESTINATION_REJECTED, message };
  }
}

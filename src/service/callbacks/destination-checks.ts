// Whether callbacks may go to the addresses that endpoints have, by the check of a write (docs/contract/callbacks.md). It
// changes and keeps nothing, and holds no connection to the database while it waits for DNS.
import { checkDestination, type DestinationDeps } from '../../delivery/webhook/destination.ts';
import { ProblemError } from '../../domain/problem.ts';
import { findAddresses } from '../../store/callbacks/endpoint-addresses.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';
import { openKnownUrl } from './endpoint-seal.ts';

/** With 100 endpoints whose names do not resolve, a call takes three times as long as the resolver waits for one. */
const AT_ONCE = 34;

/** `unknown`: DNS gave no address, or no answer in time; or the installation has no key for the address. */
export type Judgement = { verdict: 'accepted' | 'unknown' } | { verdict: 'refused'; detail: string };
export type CheckedDestination = Judgement & { endpointId: string };
const UNKNOWN: Judgement = { verdict: 'unknown' };

export interface DestinationQuestion {
  projectId: string;
  endpointIds: readonly string[];
  /** Aborted: nobody waits for the answer. */
  signal: AbortSignal;
}

/** Endpoints that do not exist, and those without an address, are passed over. */
export async function checkDestinations(
  db: Queryable,
  { secrets, destinations }: Pick<ServiceContext, 'secrets' | 'destinations'>,
  { projectId, endpointIds, signal }: DestinationQuestion,
): Promise<CheckedDestination[]> {
  const found = await findAddresses(db, projectId, endpointIds);
  const checked: CheckedDestination[] = [];
  const waiting = found.values();
  const work = async () => {
    for (const { endpointId, urlBox } of waiting) {
      if (signal.aborted) return;
      const url = openKnownUrl(secrets, { projectId, endpointId }, urlBox);
      const judgement = url === undefined ? UNKNOWN : await judge(url, destinations);
      checked.push({ endpointId, ...judgement });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return checked;
}

/** Waits for DNS as long as the resolver does, as a write does: no name that a write accepts stays unknown. */
async function judge(url: string, deps: DestinationDeps): Promise<Judgement> {
  try {
    await checkDestination(url, deps);
    return { verdict: 'accepted' };
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const { detail, fieldErrors = [] } = error.options;
    // Plain http is allowed to allowed private destinations only.
    const isRefused = fieldErrors.some(
      ({ code }) => code === 'address_not_allowed' || code === 'invalid_scheme',
    );
    return isRefused ? { verdict: 'refused', detail } : UNKNOWN;
  }
}

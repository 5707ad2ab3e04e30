// The organization's default endpoint (docs/contract/callbacks.md): one for all of its projects.
import { ProblemError } from '../../domain/problem.ts';
import {
  type EndpointRef,
  findDefaultEndpoint,
  findEndpoint,
  replaceDefaultEndpoint,
} from '../../store/callbacks/callback-endpoints.ts';
import { lockEndpoints } from '../../store/deliveries/delivery-results.ts';
import { ChangedMeanwhile } from '../../store/postgres/database-error.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller } from '../calls/context.ts';
import { requireCallback } from './callbacks.ts';
import { recordEndpointChange } from './endpoint-history.ts';

export interface WantedDefault {
  endpointId: string | null;
  /** An endpoint of the caller's project that must be the default now. */
  expectedEndpointId?: string | undefined;
}

/**
 * Sets the default to an endpoint of the caller's project; null clears it, whatever its project is. Both endpoints get a
 * record. False: it was so before. Throws `not_found`, `precondition_failed`.
 */
export async function setDefaultCallback(
  tx: Queryable,
  caller: Caller,
  { endpointId, expectedEndpointId }: WantedDefault,
): Promise<boolean> {
  const { organizationId, projectId } = caller;
  const after = endpointId === null ? undefined : { projectId, endpointId };
  const before = await findDefaultEndpoint(tx, organizationId);
  if (expectedEndpointId !== undefined && !isSame(before, { projectId, endpointId: expectedEndpointId })) {
    throw new ProblemError('precondition_failed', {
      detail:
        'The default endpoint is not expectedEndpointId: read that endpoint again, then decide whether to repeat the change.',
    });
  }
  // The locks keep both from being removed at the same moment. Those of endpoints come before the organization's.
  const nowMs = await lockEndpoints(
    tx,
    [before, after].flatMap((ref) => ref ?? []),
  );
  if (after) await requireCallback(tx, after);
  if (isSame(before, after)) return false;
  if (before) await record(tx, before, { caller, action: 'clear_default' }, nowMs);
  if (after) await record(tx, after, { caller, action: 'set_default' }, nowMs);
  if (await replaceDefaultEndpoint(tx, organizationId, { before, after })) return true;
  throw new ChangedMeanwhile('Another call has changed the default endpoint at the same moment.');
}

function isSame(one: EndpointRef | undefined, other: EndpointRef | undefined): boolean {
  return one?.projectId === other?.projectId && one?.endpointId === other?.endpointId;
}

async function record(
  tx: Queryable,
  ref: EndpointRef,
  { caller, action }: { caller: Caller; action: 'set_default' | 'clear_default' },
  nowMs: number,
): Promise<void> {
  const endpoint = await findEndpoint(tx, ref);
  // A default that was removed keeps its place until another one takes it.
  if (!endpoint) return;
  await recordEndpointChange(tx, endpoint, { change: { kind: 'configuration', action }, by: caller }, nowMs);
}

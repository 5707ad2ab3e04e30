// One batch of outcomes as one transaction: the results, and the end of endpoints that answered 410.
import type { DeliveryState } from '../../domain/callback.ts';
import { disableEndpoint, type GoneEndpoint } from '../../service/callbacks/callback-changes.ts';
import { isSameUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { EndpointRef, NewestDelivery } from '../../store/callbacks/callback-endpoints.ts';
import type { DeliveryResult, WrittenResults } from '../../store/deliveries/delivery-result.ts';
import { lockEndpoints, writeDeliveryResults } from '../../store/deliveries/delivery-results.ts';
import { toNewEntry } from '../../store/incidents/incidents.ts';
import { findInlineMonitor, type MonitorName } from '../../store/monitors/monitors.ts';
import { isDistributed } from '../../store/postgres/engine.ts';
import type { Pool, Queryable } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import {
  type DeliveryOutcome,
  type DescribedOutcome,
  describeOutcome,
  timelineOf,
} from './delivery-outcome.ts';
import { endpointKeyOf } from './due-queues.ts';

export interface WriterDeps {
  pool: Pool;
  secrets: SecretBox;
  /** The owner of the leases. */
  owner: string;
}

export interface WrittenOutcome {
  outcome: DeliveryOutcome;
  state: DeliveryState;
  /** When an attempt ended the delivery, ms of the database's clock. */
  endedMs?: number;
}

/** Outcomes of deliveries to these endpoints, or of the others. */
export function isAt(endpoints: readonly EndpointRef[], expected: boolean) {
  const keys = new Set(endpoints.map(endpointKeyOf));
  return ({ outcome }: { outcome: DeliveryOutcome }) =>
    keys.has(endpointKeyOf(outcome.claim.endpoint)) === expected;
}

export interface WrittenBatch {
  written: WrittenOutcome[];
  /** Nothing is written of what went there: somebody else had their rows locked. */
  busy: EndpointRef[];
  /** What is still to be written into the endpoints. */
  newest: readonly NewestDelivery[];
  disabled: DisabledEndpoint[];
}

/**
 * One statement, unless an endpoint is to be disabled: that commits together with the outcome that shows it. On Citus a
 * transaction, of outcomes of one shard.
 */
export async function writeOutcomes(
  { pool, secrets, owner }: WriterDeps,
  outcomes: readonly DeliveryOutcome[],
): Promise<WrittenBatch> {
  const now = performance.now();
  const described = outcomes.map((outcome) => describeOutcome(outcome, now));
  const batch = { owner, results: resultsOf(described) };
  const gone = described.filter(({ disable }) => disable !== undefined);
  if (gone.length === 0 && !isDistributed()) {
    return toBatch(described, await writeDeliveryResults(pool, batch), []);
  }
  return await inTransaction(pool, async (tx) => {
    // There the results lock no endpoint.
    if (isDistributed() && gone.length > 0) await lockEndpoints(tx, gone.map(endpointOf));
    const results = await writeDeliveryResults(tx, batch);
    const free = described.filter(isAt(results.busy, false));
    return toBatch(described, results, await disableEndpoints(tx, secrets, free, results.nowMs));
  });
}

function toBatch(
  described: readonly DescribedOutcome[],
  results: WrittenResults,
  disabled: DisabledEndpoint[],
): WrittenBatch {
  return { written: join(described, results), busy: results.busy, newest: results.newest ?? [], disabled };
}

function endpointOf({ outcome }: DescribedOutcome): EndpointRef {
  return outcome.claim.endpoint;
}

function resultsOf(described: readonly DescribedOutcome[]): DeliveryResult[] {
  return described.map((of, index) => {
    const row = timelineOf(of);
    return row ? { ...of.result, entry: toNewEntry(row, index) } : of.result;
  });
}

function join(described: readonly DescribedOutcome[], { written }: WrittenResults): WrittenOutcome[] {
  const keyOf = (of: { projectId: string; deliveryId: string }) => `${of.projectId} ${of.deliveryId}`;
  const results = new Map(written.map((result) => [keyOf(result), result]));
  return described.flatMap(({ outcome, result }) => {
    const { state, endedMs } = results.get(keyOf(result)) ?? {};
    return state ? { outcome, state, endedMs } : [];
  });
}

/** Disables endpoints that answered 410, after the results are written: what is pending at them then is canceled. */
async function disableEndpoints(
  tx: Queryable,
  secrets: SecretBox,
  described: readonly DescribedOutcome[],
  nowMs: number,
): Promise<DisabledEndpoint[]> {
  const gone = new Map<string, GoneEndpoint>();
  for (const { outcome, disable } of described) {
    const { endpoint, urlBox } = outcome.claim;
    if (!disable || !urlBox) continue;
    gone.set(`${endpointKeyOf(endpoint)} ${urlBox.toString('base64')}`, {
      ...endpoint,
      reason: disable,
      isAddress: (current) => isSameUrl(secrets, endpoint, [current, urlBox]),
    });
  }
  const disabled: DisabledEndpoint[] = [];
  for (const endpoint of gone.values()) {
    if (!(await disableEndpoint(tx, endpoint, nowMs))) continue;
    disabled.push({ ...endpoint, monitor: await findInlineMonitor(tx, endpoint) });
  }
  return disabled;
}

export interface DisabledEndpoint extends EndpointRef {
  /** Of an inline binding. */
  monitor?: Required<MonitorName>;
}

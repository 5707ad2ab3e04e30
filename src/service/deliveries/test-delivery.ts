// One message to an endpoint, now, and the receiver's answer (docs/contract/callbacks.md). The row is committed
// first; the request is sent with no transaction open; the outcome commits with the idempotency record. A crash in
// between leaves a pending row, which a dispatcher sends later with the same webhook-id.
import { createHash } from 'node:crypto';
import { buildTestEvent } from '../../delivery/formats/event.ts';
import type { DisabledReason } from '../../delivery/retry-schedule.ts';
import type { AttemptResult } from '../../delivery/sender.ts';
import { Senders } from '../../delivery/senders.ts';
import type { EndpointKind } from '../../domain/callback.ts';
import { newId } from '../../domain/id.ts';
import { ProblemError } from '../../domain/problem.ts';
import {
  type EndpointRef,
  type EndpointRow,
  updateLastDeliveries,
} from '../../store/callbacks/callback-endpoints.ts';
import { findRelayTopicBox } from '../../store/callbacks/relay-topics.ts';
import { findDelivery, listAttempts } from '../../store/deliveries/deliveries.ts';
import {
  findTestDelivery,
  finishTestDelivery,
  insertTestDelivery,
  isTestUnderWay,
} from '../../store/deliveries/test-deliveries.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction, readNow } from '../../store/postgres/transaction.ts';
import { disableEndpoint, type GoneEndpoint } from '../callbacks/callback-changes.ts';
import { lockCallback } from '../callbacks/callbacks.ts';
import { addressPlace, isSameUrl, openValidSecrets } from '../callbacks/endpoint-seal.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';

const TAKEOVER_MS = 60_000;
const DAY_MS = 86_400_000;
const GONE: DisabledReason = 'gone';

/** The result of a test as its caller sees it (docs/contract/callbacks.md). */
export interface TestDeliveryRecord {
  delivered: boolean;
  statusCode?: number;
  latencyMs?: number;
  /** The first 1,024 bytes of the receiver's answer. */
  body?: string;
  error?: string;
  deliveryId: string;
}

export interface TestDeliveryCall {
  caller: Caller;
  endpointId: string;
  idempotencyKey: string;
}

/** A test that was sent. `finishTest` records it, in the transaction that keeps the answer. */
export interface SentTest {
  ref: EndpointRef;
  record: TestDeliveryRecord;
  /** The receiver answered 410. */
  gone?: GoneEndpoint;
  /** Another call with the same key has sent it: there is nothing to record. */
  isDuplicate?: true;
}

interface PreparedTest {
  deliveryId: string;
  kind: EndpointKind;
  /** Sealed: the URL of a webhook. */
  urlBox?: Buffer;
  relayTopicId?: string;
  /** What it sends to, sealed: `urlBox`, or the topic of a relay kind. */
  addressBox?: Buffer;
  secrets: string[];
  message: { webhookId: string; body: string };
}

/**
 * Writes the row, sends, and returns the answer, within some 10 s. Holds no transaction while it sends.
 * Throws `not_found`, and `conflict` for a disabled endpoint or (retryable) while this or another test of it is running.
 */
export async function sendTest(
  pool: Database,
  context: ServiceContext,
  call: TestDeliveryCall,
): Promise<SentTest> {
  const ref: EndpointRef = { projectId: call.caller.projectId, endpointId: call.endpointId };
  const prepared = await inTransaction(pool, (tx) => prepare(tx, context, ref, call));
  if ('record' in prepared) return { ref, record: prepared.record, isDuplicate: true };
  const { deliveryId, kind, urlBox, relayTopicId, addressBox, secrets, message } = prepared;
  const url = addressBox ? context.secrets.open(addressBox, addressPlace(ref, relayTopicId)) : '';
  // Tests are rare: their connections are not kept.
  const senders = new Senders({ ...context.destinations, relay: context.relay });
  try {
    const result = await senders.of({ kind }).send({ url, secrets, ...message });
    const isAddress = (current: Buffer) => !urlBox || isSameUrl(context.secrets, ref, [current, urlBox]);
    const gone = result.gone ? { ...ref, reason: GONE, isAddress } : undefined;
    return { ref, record: describeResult(deliveryId, result), gone };
  } finally {
    await senders.close();
  }
}

function describeResult(deliveryId: string, result: AttemptResult): TestDeliveryRecord {
  const { delivered, statusCode, latencyMs, body, error } = result;
  return { delivered, statusCode, latencyMs, body, error, deliveryId };
}

async function prepare(
  tx: Queryable,
  { secrets }: ServiceContext,
  ref: EndpointRef,
  call: TestDeliveryCall,
): Promise<PreparedTest | { record: TestDeliveryRecord }> {
  const endpoint = await lockCallback(tx, ref);
  const nowMs = await readNow(tx);
  const earlier = await findEarlier(tx, call, nowMs);
  if (earlier !== undefined) return { record: await readResult(tx, ref.projectId, earlier) };
  requireActive(endpoint);
  const deliveryId = newId('dlv', nowMs);
  const body = buildTestEvent({ atMs: nowMs, organizationId: call.caller.organizationId, ...ref });
  const message = { webhookId: webhookIdOf(call, nowMs), body };
  const times = { createdMs: nowMs, takeoverMs: nowMs + TAKEOVER_MS };
  const delivery = { ...ref, deliveryId, ...message, ...times };
  await insertTestDelivery(tx, delivery);
  if (await isTestUnderWay(tx, delivery)) throw otherTestRuns();
  const { kind, urlBox, relayTopicId } = endpoint;
  const addressBox = relayTopicId === undefined ? urlBox : await findRelayTopicBox(tx, relayTopicId);
  const destination = { kind, urlBox, relayTopicId, addressBox };
  return { deliveryId, ...destination, message, secrets: await openValidSecrets(tx, secrets, ref) };
}

/** One at a time, over all replicas: a receiver that hangs holds one call, however many ask. */
function otherTestRuns(): ProblemError {
  return new ProblemError('conflict', {
    detail:
      'Another test delivery is on its way to this callback endpoint: wait for its answer or for Retry-After, then try again.',
    retryAfterSeconds: 1,
  });
}

function requireActive(endpoint: EndpointRow): void {
  if (endpoint.lifecycle === 'active') return;
  throw new ProblemError('conflict', {
    detail: 'The callback endpoint is disabled: set its lifecycle to active, then send the test again.',
  });
}

/**
 * The delivery of an earlier call with the key: concurrent duplicates on several replicas, and a repeated call after a crash,
 * send one message. Its id may have the day before in it. The caller has locked the endpoint's row, so that none is made
 * meanwhile.
 */
async function findEarlier(
  tx: Queryable,
  call: TestDeliveryCall,
  nowMs: number,
): Promise<string | undefined> {
  const sinceMs = nowMs - DAY_MS;
  const webhookIds = [nowMs, sinceMs].map((atMs) => webhookIdOf(call, atMs));
  return await findTestDelivery(tx, { projectId: call.caller.projectId, webhookIds, sinceMs });
}

/** The same for every call with one key on one day (UTC): a key may be used again after 24 hours. */
function webhookIdOf({ caller, endpointId, idempotencyKey }: TestDeliveryCall, nowMs: number): string {
  const text = [caller.projectId, endpointId, idempotencyKey, Math.floor(nowMs / DAY_MS)].join('\n');
  return `msg_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
}

/** The result of the call that came first, without the body of the receiver's answer, which is not kept. */
async function readResult(tx: Queryable, projectId: string, deliveryId: string): Promise<TestDeliveryRecord> {
  const delivery = await findDelivery(tx, projectId, deliveryId);
  const attempt = (await listAttempts(tx, projectId, deliveryId)).at(-1);
  if (!delivery || !attempt) {
    throw new ProblemError('conflict', {
      detail: 'The test delivery of this Idempotency-Key is still running: try again with the same key.',
      retryAfterSeconds: 1,
    });
  }
  const { statusCode, latencyMs, error } = attempt;
  return { delivered: delivery.state === 'delivered', statusCode, latencyMs, error, deliveryId };
}

export interface FinishedTest {
  record: TestDeliveryRecord;
  /** The receiver's 410 disabled the endpoint. */
  isDisabled: boolean;
}

/** Records the outcome at `nowMs`. A 410 disables the endpoint, as for every delivery. */
export async function finishTest(tx: Queryable, sent: SentTest, nowMs: number): Promise<FinishedTest> {
  const { ref, record } = sent;
  if (sent.isDuplicate) return { record, isDisabled: false };
  const { delivered, statusCode, latencyMs, error, deliveryId } = record;
  const atMs = nowMs - (latencyMs ?? 0);
  const attempt = { projectId: ref.projectId, deliveryId, delivered, atMs, endedMs: nowMs };
  const last = { state: delivered ? 'delivered' : 'exhausted', atMs: nowMs, statusCode } as const;
  // The endpoint's row is locked before the delivery's (lock order in callback-endpoints.ts). The delivery is finished
  // before the endpoint is disabled, because disabling cancels pending deliveries.
  await updateLastDeliveries(tx, [{ ...ref, last }]);
  await finishTestDelivery(tx, { ...attempt, statusCode, latencyMs, error });
  const isDisabled = sent.gone !== undefined && (await disableEndpoint(tx, sent.gone, nowMs));
  return { record, isDisabled };
}

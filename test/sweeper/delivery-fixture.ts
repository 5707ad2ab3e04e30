// What the tests of dispatchers share: receivers, the outbox, and looks at what was written.
import { Webhook } from 'standardwebhooks';
import { newId } from '../../src/domain/id.ts';
import { insertDeliveries, type OutboxRow } from '../../src/store/deliveries/outbox.ts';
import type { Dispatcher } from '../../src/sweeper/deliveries/dispatcher.ts';
import { type Answer, type Receiver, startReceiver } from '../support/receiver.ts';
import {
  addEndpoint,
  type Endpoint,
  openSweeperFixture,
  readNowMs,
  type SweeperFixture,
  startDispatcher,
} from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

type Ref = Pick<OutboxRow, 'deliveryId'>;

export class DeliveryFixture {
  readonly sweeper: SweeperFixture;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor(sweeper: SweeperFixture) {
    this.sweeper = sweeper;
  }

  /** After each test. What was opened last ends first: a dispatcher before its receivers, so that attempts may end. */
  async endTest(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end();
    // What is left would be sent to the next test's receiver, if that is given the port of one that is closed.
    await this.#query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now()
       where state in ('pending', 'failing')`,
    );
  }

  /** After the last one. */
  async close(): Promise<void> {
    await this.sweeper.close();
  }

  /** Something to end with the test. */
  atEnd(end: () => Promise<unknown>): void {
    this.#ends.push(end);
  }

  /** A receiver, and an endpoint that leads to it. */
  async receive(answer: Answer): Promise<{ receiver: Receiver; endpoint: Endpoint }> {
    const receiver = await startReceiver(answer);
    this.atEnd(() => receiver.close());
    const endpoint = await addEndpoint(this.sweeper, `http://127.0.0.1:${receiver.port}/hook`);
    return { receiver, endpoint };
  }

  dispatch(options: Parameters<typeof startDispatcher>[1] = {}): Dispatcher {
    const dispatcher = startDispatcher(this.sweeper, options);
    this.atEnd(() => dispatcher.stop());
    return dispatcher;
  }

  /** Puts events into the outbox: of one incident when `incidentId` is given, else each of its own. */
  async enqueue(endpoint: Endpoint, count: number, more: Partial<OutboxRow> = {}): Promise<OutboxRow[]> {
    const { projectId } = this.sweeper.project;
    const rows = Array.from(
      { length: count },
      (_, index): OutboxRow => ({
        projectId,
        deliveryId: newId('dlv'),
        endpointId: endpoint.endpointId,
        endpointProjectId: projectId,
        incidentId: newId('inc'),
        event: 'incident.opened',
        sequence: more.incidentId ? index + 1 : 1,
        webhookId: newId('msg'),
        body: JSON.stringify({ type: 'incident.opened', index }),
        ...more,
      }),
    );
    await insertDeliveries(this.sweeper.pool, rows, await this.nowMs());
    return rows;
  }

  /** Events of as many other endpoints, due in `waitMs`. */
  async enqueueElsewhere(count: number, waitMs: number): Promise<void> {
    const { projectId } = this.sweeper.project;
    await this.#query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
         state, webhook_id, body, next_attempt_at, created_at)
       select $1, 'dlv_' || n, 'cb_' || n, $1, 'inc_' || n, 'incident.opened', 1, 'failing', 'msg_' || n, '{}',
         now() + $3 * interval '1 millisecond', now()
       from generate_series(1, $2) as n`,
      ...[projectId, count, waitMs],
    );
  }

  async enqueueOne(endpoint: Endpoint, more: Partial<OutboxRow> = {}): Promise<OutboxRow> {
    const [row] = await this.enqueue(endpoint, 1, more);
    if (!row) throw new Error('There is no row.');
    return row;
  }

  nowMs(): Promise<number> {
    return readNowMs(this.sweeper.pool);
  }

  async rowOf({ deliveryId }: Ref) {
    const [row] = await this.#query('select * from deliveries where delivery_id = $1', deliveryId);
    return row;
  }

  async stateIs(row: Ref, state: string): Promise<void> {
    const isThere = async () => (await this.rowOf(row)).state === state;
    await waitFor(isThere, { what: `the delivery is ${state}` });
  }

  attemptsOf({ deliveryId }: Ref) {
    const text = 'select * from delivery_attempts where delivery_id = $1 order by attempt';
    return this.#query(text, deliveryId);
  }

  async endpointRow({ endpointId }: Endpoint) {
    const [row] = await this.#query('select * from callback_endpoints where endpoint_id = $1', endpointId);
    return row;
  }

  timelineOf({ incidentId }: OutboxRow) {
    return this.#query(
      'select type, delivery, detail from timeline_entries where incident_id = $1 order by at, entry_id',
      incidentId,
    );
  }

  /** Its wait is over, and so is the lease of who has it. */
  async makeDue({ deliveryId }: Ref): Promise<void> {
    await this.#query(
      'update deliveries set next_attempt_at = now(), lease_until = least(lease_until, now()) where delivery_id = $1',
      deliveryId,
    );
  }

  /** As the end of its endpoint leaves it. */
  async cancel({ deliveryId }: Ref): Promise<void> {
    await this.#query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now(), lease_until = null,
         lease_owner = null where delivery_id = $1`,
      deliveryId,
    );
  }

  async #query(text: string, ...values: unknown[]) {
    const { rows } = await this.sweeper.pool.query(text, values);
    return rows;
  }
}

export async function openDeliveryFixture(): Promise<DeliveryFixture> {
  return new DeliveryFixture(await openSweeperFixture());
}

export const ok: Answer = (_request, _message, response) => response.writeHead(204).end();

export const status =
  (code: number): Answer =>
  (_request, _message, response) =>
    response.writeHead(code).end();

/** Answers when the test says so. */
export function holding(): { answer: Answer; released: Promise<void>; release(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    answer: (...request) => void promise.then(() => ok(...request)),
    released: promise,
    release: resolve,
  };
}

export const idsOf = (receiver: Receiver) => receiver.requests.map(({ headers }) => headers['webhook-id']);

/** What a receiver verifies with. */
export const verifierOf = (secret: string) =>
  new Webhook(Buffer.from(secret.slice('sigcb_v1_'.length), 'base64url').toString('base64'));

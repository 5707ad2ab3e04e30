// A project with receivers, endpoints that lead to them, an outbox, and queries for what dispatchers wrote.
import { randomUUID } from 'node:crypto';
import { vi } from 'vitest';
import { insertDeliveries, type OutboxRow } from '../../src/store/deliveries/deliveries.ts';
import { type Claim, claimDeliveries } from '../../src/store/deliveries/delivery-queue.ts';
import type { QueueRef } from '../../src/store/deliveries/due-queues.ts';
import type { Pool, Queryable } from '../../src/store/postgres/pool.ts';
import type { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import type { Dispatcher } from '../../src/sweeper/deliveries/dispatcher.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type Answer, ok, type Receiver, startReceiver } from '../support/receiver.ts';
import { type SeedEndpoint, type SeedProject, seedEndpoint, seedProject } from '../support/seed.ts';
import { timelineOf } from '../support/stored-rows.ts';
import { makeDelivery, startDispatcher } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

type Ref = Pick<OutboxRow, 'deliveryId'>;

export interface ClaimOptions {
  owner?: string;
  places?: number;
  db?: Queryable;
}

export class DeliveryFixture implements ProjectFixture {
  readonly databaseUrl: string;
  readonly pool: Pool;
  readonly project: SeedProject;
  readonly secrets: SecretBox;
  /** Call it after the last test. */
  readonly close: () => Promise<void>;
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor({ databaseUrl, pool, project, secrets, close }: ProjectFixture) {
    this.databaseUrl = databaseUrl;
    this.pool = pool;
    this.project = project;
    this.secrets = secrets;
    this.close = close;
  }

  /** Call it after each test. What was opened last ends first: a dispatcher before its receivers, so that attempts end. */
  async endTest(): Promise<void> {
    vi.restoreAllMocks();
    for (const end of this.#ends.splice(0).reverse()) await end();
    // Deliveries that are left would go to the next test's receiver, if it is given the port of a closed one.
    await this.#query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now()
       where state in ('pending', 'failing')`,
    );
  }

  /** Ends something with the test. */
  atEnd(end: () => Promise<unknown>): void {
    this.#ends.push(end);
  }

  /** A receiver, and an endpoint that leads to it. */
  async receive(answer?: Answer): Promise<{ receiver: Receiver; endpoint: SeedEndpoint }> {
    const receiver = await startReceiver(answer);
    this.atEnd(() => receiver.close());
    const endpoint = await seedEndpoint(this, receiver.url);
    return { receiver, endpoint };
  }

  /** Another project on the same database, until the end of the test. */
  async neighbour(): Promise<DeliveryFixture> {
    const neighbour = new DeliveryFixture({ ...this, project: await seedProject(this.pool) });
    this.atEnd(() => neighbour.endTest());
    return neighbour;
  }

  /** A receiver, and so many endpoints that lead to it. */
  async receiveAt(endpoints: number, answer?: Answer) {
    const receiver = await startReceiver(answer);
    this.atEnd(() => receiver.close());
    const seeded: SeedEndpoint[] = [];
    while (seeded.length < endpoints) seeded.push(await seedEndpoint(this, receiver.url));
    return { receiver, endpoints: seeded };
  }

  dispatch(options: Parameters<typeof startDispatcher>[1] = {}): Dispatcher {
    const dispatcher = startDispatcher(this, { pollMs: 20, ...options });
    this.atEnd(() => dispatcher.stop());
    return dispatcher;
  }

  /** Puts events into the outbox: of the incident `incidentId`, or without it each of a new incident. */
  async enqueue(endpoint: SeedEndpoint, count: number, more: Partial<OutboxRow> = {}): Promise<OutboxRow[]> {
    const createdMs = more.createdMs ?? (await this.nowMs());
    const rows = Array.from({ length: count }, (_, index) =>
      makeDelivery(this.project, endpoint, {
        createdMs,
        sequence: more.incidentId ? index + 1 : 1,
        body: JSON.stringify({ type: 'incident.opened', index }),
        ...more,
      }),
    );
    await insertDeliveries(this.pool, rows, createdMs);
    return rows;
  }

  /** Events of as many other endpoints, due in `waitMs`. */
  async enqueueElsewhere(count: number, waitMs: number): Promise<void> {
    const { projectId } = this.project;
    await this.#query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
         state, webhook_id, body, next_attempt_at, created_at)
       select $1, 'dlv_' || n, 'cb_' || n, $1, 'inc_' || n, 'incident.opened', 1, 'failing', 'msg_' || n, '{}',
         now() + $3 * interval '1 millisecond', now()
       from generate_series(1, $2) as n`,
      ...[projectId, count, waitMs],
    );
  }

  async enqueueOne(endpoint: SeedEndpoint, more: Partial<OutboxRow> = {}): Promise<OutboxRow> {
    const [row] = await this.enqueue(endpoint, 1, more);
    if (!row) throw new Error('There is no row.');
    return row;
  }

  /** Claims what the project has to send to the endpoint; by default ten deliveries at most, for an owner of its own. */
  claim(
    endpoint: SeedEndpoint,
    { owner = randomUUID(), places = 10, db = this.pool }: ClaimOptions = {},
  ): Promise<Claim> {
    return claimDeliveries(db, owner, [{ ...queueOf(this.project, endpoint), places }]);
  }

  nowMs(): Promise<number> {
    return readNow(this.pool);
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
    return this.#query(
      `select 1 as attempt, first_at as at, first_status_code as status_code, first_error as error
       from deliveries where delivery_id = $1 and first_at is not null
       union all
       select attempt, at, status_code, error from delivery_attempts where delivery_id = $1 order by attempt`,
      deliveryId,
    );
  }

  async endpointRow({ endpointId }: SeedEndpoint) {
    const [row] = await this.#query('select * from callback_endpoints where endpoint_id = $1', endpointId);
    return row;
  }

  /** What people see at the endpoint; on Citus a moment later than the delivery. */
  async lastDeliveryIs(endpoint: SeedEndpoint, state: string) {
    const find = async () => {
      const { last_delivery: last } = await this.endpointRow(endpoint);
      return last?.state === state ? last : undefined;
    };
    return await waitFor(find, { what: `the last delivery of the endpoint is ${state}` });
  }

  timelineOf({ incidentId }: OutboxRow) {
    return timelineOf(this.pool, incidentId);
  }

  /** Ends its wait, and the lease of its dispatcher. */
  async makeDue({ deliveryId }: Ref): Promise<void> {
    await this.#query(
      'update deliveries set next_attempt_at = now(), lease_until = least(lease_until, now()) where delivery_id = $1',
      deliveryId,
    );
  }

  /** Leaves it as the end of its endpoint does. */
  async cancel({ deliveryId }: Ref): Promise<void> {
    await this.#query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now(), lease_until = null,
         lease_owner = null where delivery_id = $1`,
      deliveryId,
    );
  }

  async #query(text: string, ...values: unknown[]) {
    const { rows } = await this.pool.query(text, values);
    return rows;
  }
}

export async function openDeliveryFixture(): Promise<DeliveryFixture> {
  return new DeliveryFixture(await openProjectFixture());
}

/** What the project has to send to its endpoint. */
export function queueOf(
  { projectId }: Pick<SeedProject, 'projectId'>,
  { endpointId }: SeedEndpoint,
): QueueRef {
  return { projectId, endpoint: { projectId, endpointId } };
}

/** An answer that waits for `release`. */
export function holding(): { answer: Answer; released: Promise<void>; release(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    answer: (...request) => void promise.then(() => ok(...request)),
    released: promise,
    release: resolve,
  };
}

export const idsOf = (receiver: Receiver) => receiver.requests.map(({ headers }) => headers['webhook-id']);

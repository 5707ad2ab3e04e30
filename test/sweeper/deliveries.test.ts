// Dispatchers on a real database and real receivers: what is sent, in which order, how often, and what is written.
import { randomUUID } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { newSigningSecret } from '../../src/delivery/signature.ts';
import { newId } from '../../src/domain/id.ts';
import { claimDeliveries } from '../../src/store/delivery-queue.ts';
import { insertDeliveries, type OutboxRow } from '../../src/store/outbox.ts';
import { openPool } from '../../src/store/pool.ts';
import type { Dispatcher } from '../../src/sweeper/dispatcher.ts';
import { type Answer, type Receiver, startReceiver } from '../delivery/receiver.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  addEndpoint,
  type Endpoint,
  type Installation,
  openInstallation,
  readNowMs,
  startDispatcher,
} from './installation.ts';

let installation: Installation;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  installation = await openInstallation();
});
afterAll(() => installation?.close());
afterEach(async () => {
  // Dispatchers first: what is still under way may end.
  for (const end of ends.splice(0).reverse()) await end();
  // What is left would be sent to the next test's receiver, if that is given the port of one that is closed.
  await installation.pool.query(
    `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now()
     where state in ('pending', 'failing')`,
  );
});

const ok: Answer = (_request, _message, response) => response.writeHead(204).end();
const status =
  (code: number): Answer =>
  (_request, _message, response) =>
    response.writeHead(code).end();

async function receive(answer: Answer): Promise<{ receiver: Receiver; endpoint: Endpoint }> {
  const receiver = await startReceiver(answer);
  ends.push(() => receiver.close());
  const endpoint = await addEndpoint(installation, `http://127.0.0.1:${receiver.port}/hook`);
  return { receiver, endpoint };
}

function dispatch(options: Parameters<typeof startDispatcher>[1] = {}): Dispatcher {
  const dispatcher = startDispatcher(installation, options);
  ends.push(() => dispatcher.stop());
  return dispatcher;
}

/** Puts events into the outbox: of one incident when `incidentId` is given, else each of its own. */
async function enqueue(
  endpoint: Endpoint,
  count: number,
  more: Partial<OutboxRow> = {},
): Promise<OutboxRow[]> {
  const { projectId } = installation.project;
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
  await insertDeliveries(installation.pool, rows, await readNowMs(installation.pool));
  return rows;
}

async function rowOf({ deliveryId }: { deliveryId: string }) {
  const { rows } = await installation.pool.query('select * from deliveries where delivery_id = $1', [
    deliveryId,
  ]);
  return rows[0];
}
const stateIs = (row: { deliveryId: string }, state: string) =>
  waitFor(async () => (await rowOf(row)).state === state, { what: `the delivery is ${state}` });
async function attemptsOf({ deliveryId }: { deliveryId: string }) {
  const { rows } = await installation.pool.query(
    'select * from delivery_attempts where delivery_id = $1 order by attempt',
    [deliveryId],
  );
  return rows;
}
async function endpointRow({ endpointId }: Endpoint) {
  const { rows } = await installation.pool.query('select * from callback_endpoints where endpoint_id = $1', [
    endpointId,
  ]);
  return rows[0];
}
async function timelineOf({ incidentId }: OutboxRow) {
  const { rows } = await installation.pool.query(
    'select type, delivery, detail from timeline_entries where incident_id = $1 order by at, entry_id',
    [incidentId],
  );
  return rows;
}
const makeDue = ({ deliveryId }: { deliveryId: string }) =>
  installation.pool.query(
    'update deliveries set next_attempt_at = now(), lease_until = least(lease_until, now()) where delivery_id = $1',
    [deliveryId],
  );
const idsOf = (receiver: Receiver) => receiver.requests.map(({ headers }) => headers['webhook-id']);
const keyOf = (secret: string) =>
  new Webhook(Buffer.from(secret.slice('sigcb_v1_'.length), 'base64url').toString('base64'));

describe('a delivery', () => {
  it('is signed, sent once, and written down with its attempt, its timeline and the endpoint', async () => {
    const { receiver, endpoint } = await receive(ok);
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    dispatch();
    await stateIs(row, 'delivered');
    const [request] = receiver.requests;
    expect(receiver.requests).toHaveLength(1);
    expect(request?.headers['webhook-id']).toBe(row.webhookId);
    expect(keyOf(endpoint.secret).verify(request?.body ?? '', request?.headers as never)).toEqual(
      JSON.parse(row.body),
    );
    expect(await rowOf(row)).toMatchObject({
      attempt_count: 1,
      next_attempt_at: null,
      lease_owner: null,
      delivered_at: expect.any(Date),
      ended_at: expect.any(Date),
    });
    expect(await attemptsOf(row)).toMatchObject([{ attempt: 1, status_code: 204, error: null }]);
    expect(await timelineOf(row)).toMatchObject([
      { type: 'delivery', delivery: { deliveryId: row.deliveryId, state: 'delivered' } },
    ]);
    expect((await endpointRow(endpoint)).last_delivery).toMatchObject({
      state: 'delivered',
      statusCode: 204,
      at: expect.any(String),
    });
  });

  it('is signed with both secrets in an overlap, the newest first', async () => {
    const { receiver, endpoint } = await receive(ok);
    const newest = newSigningSecret();
    const { projectId } = installation.project;
    await installation.pool.query(
      `update signing_secrets set ends_at = now() + interval '5 minutes' where endpoint_id = $1`,
      [endpoint.endpointId],
    );
    await installation.pool.query(
      `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at) values ($1, $2, 2, $3, now())`,
      [projectId, endpoint.endpointId, installation.secrets.seal(newest, endpoint.endpointId)],
    );
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    dispatch();
    await stateIs(row, 'delivered');
    const [request] = receiver.requests;
    const [first, second] = String(request?.headers['webhook-signature']).split(' ');
    for (const [secret, signature] of [
      [newest, first],
      [endpoint.secret, second],
    ] as const) {
      const headers = { ...request?.headers, 'webhook-signature': signature } as never;
      expect(() => keyOf(secret).verify(request?.body ?? '', headers)).not.toThrow();
    }
  });

  it('that fails is tried again by the schedule, with one webhook-id, until there is no attempt left', async () => {
    const { receiver, endpoint } = await receive(status(500));
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      // A dispatcher of its own for each: the breaker of one would open.
      const dispatcher = startDispatcher(installation);
      await waitFor(async () => (await rowOf(row)).attempt_count === attempt, {
        what: 'the attempt is made',
      });
      await dispatcher.stop();
      const { state, next_attempt_at: nextAt, ended_at: endedAt } = await rowOf(row);
      expect(state).toBe(attempt < 8 ? 'failing' : 'exhausted');
      if (attempt === 8) expect([nextAt, endedAt]).toEqual([null, expect.any(Date)]);
      const last = (await attemptsOf(row)).at(-1);
      const waitMs = [5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000, 43_200_000][attempt - 1];
      if (waitMs !== undefined) {
        expect((nextAt.getTime() - last.at.getTime()) / waitMs).toBeGreaterThan(0.89);
        expect((nextAt.getTime() - last.at.getTime()) / waitMs).toBeLessThan(1.25);
      }
      await makeDue(row);
    }
    expect(new Set(idsOf(receiver))).toEqual(new Set([row.webhookId]));
    expect(receiver.requests).toHaveLength(8);
    expect((await timelineOf(row)).map(({ delivery }) => delivery.state)).toEqual(['failing', 'exhausted']);
    expect((await endpointRow(endpoint)).last_delivery).toMatchObject({
      state: 'exhausted',
      statusCode: 500,
    });
  });

  it('of a test is never tried again', async () => {
    const { endpoint } = await receive(status(500));
    const [row] = await enqueue(endpoint, 1, {
      event: 'callback.test',
      incidentId: undefined,
      sequence: undefined,
    });
    if (!row) throw new Error('no row');
    dispatch();
    await stateIs(row, 'exhausted');
    expect(await attemptsOf(row)).toHaveLength(1);
  });

  it('that can not be read for want of a key is left alone, and costs no attempt', async () => {
    const { receiver, endpoint } = await receive(ok);
    await installation.pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
      endpoint.endpointId,
      Buffer.from('0102', 'hex'),
    ]);
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    dispatch();
    const later = async () => (await rowOf(row)).next_attempt_at > new Date(Date.now() + 30_000);
    await waitFor(later, { what: 'it is put off' });
    expect(await rowOf(row)).toMatchObject({ state: 'pending', attempt_count: 0, lease_owner: null });
    expect(receiver.requests).toEqual([]);
  });
});

describe('the order inside an incident', () => {
  it('is kept: a later event waits until the one before has ended', async () => {
    let failures = 1;
    const { receiver, endpoint } = await receive((request, message, response) => {
      failures -= 1;
      (failures >= 0 ? status(500) : ok)(request, message, response);
    });
    const rows = await enqueue(endpoint, 3, { incidentId: newId('inc') });
    const [first, , last] = rows;
    if (!first || !last) throw new Error('no rows');
    dispatch();
    await stateIs(first, 'failing');
    expect(idsOf(receiver)).toEqual([first.webhookId]);
    await makeDue(first);
    await stateIs(last, 'delivered');
    expect(idsOf(receiver)).toEqual([first.webhookId, ...rows.map(({ webhookId }) => webhookId)]);
  });

  it('waits for no redelivery, and goes on after a cancellation', async () => {
    const { receiver, endpoint } = await receive(ok);
    const incidentId = newId('inc');
    const farAway = await addEndpoint(installation, 'http://127.0.0.1:9/');
    const [before] = await enqueue(farAway, 1, { incidentId });
    if (!before) throw new Error('no row');
    const [copy, after] = [
      ...(await enqueue(farAway, 1, { incidentId, sequence: 1, redeliveryOf: before.deliveryId })),
      ...(await enqueue(endpoint, 1, { incidentId, sequence: 2 })),
    ];
    if (!copy || !after) throw new Error('no rows');
    dispatch();
    await stateIs(before, 'failing');
    await stateIs(copy, 'failing');
    expect(receiver.requests).toEqual([]);
    await installation.pool.query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now() where delivery_id = $1`,
      [before.deliveryId],
    );
    await stateIs(after, 'delivered');
  });
});

describe('an endpoint', () => {
  it('that answers 410 is disabled, and what waits for it is canceled', async () => {
    const { receiver, endpoint } = await receive(status(410));
    const rows = await enqueue(endpoint, 5);
    dispatch();
    await waitFor(async () => (await endpointRow(endpoint)).lifecycle === 'disabled', { what: 'disabled' });
    expect(await endpointRow(endpoint)).toMatchObject({ disabled_reason: 'gone', generation: 2 });
    const states = await Promise.all(rows.map(async (row) => (await rowOf(row)).state));
    expect(states.toSorted()).toEqual(['canceled', 'canceled', 'canceled', 'canceled', 'exhausted']);
    expect(receiver.requests).toHaveLength(1);
  });

  it('that was disabled or removed after the event is told nothing, and the timeline says why', async () => {
    const { receiver, endpoint } = await receive(ok);
    const removed = await receive(ok);
    await installation.pool.query(
      `update callback_endpoints set lifecycle = 'disabled' where endpoint_id = $1`,
      [endpoint.endpointId],
    );
    await installation.pool.query(
      'update callback_endpoints set removed_at = now(), url_box = null where endpoint_id = $1',
      [removed.endpoint.endpointId],
    );
    const [one] = await enqueue(endpoint, 1);
    const [other] = await enqueue(removed.endpoint, 1);
    if (!one || !other) throw new Error('no rows');
    dispatch();
    await stateIs(one, 'canceled');
    await stateIs(other, 'canceled');
    expect(await timelineOf(one)).toMatchObject([{ detail: { reason: 'endpoint_disabled' } }]);
    expect(await timelineOf(other)).toMatchObject([{ detail: { reason: 'endpoint_removed' } }]);
    expect([...receiver.requests, ...removed.receiver.requests]).toEqual([]);
    expect(await attemptsOf(one)).toEqual([]);
  });

  it('that is disabled while an attempt is under way keeps the delivery canceled, with the attempt on record', async () => {
    const held = Promise.withResolvers<void>();
    const { receiver, endpoint } = await receive((request, message, response) => {
      void held.promise.then(() => ok(request, message, response));
    });
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    dispatch();
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    await installation.pool.query(
      `update deliveries set state = 'canceled', next_attempt_at = null, ended_at = now(), lease_until = null,
         lease_owner = null where delivery_id = $1`,
      [row.deliveryId],
    );
    held.resolve();
    await waitFor(async () => (await attemptsOf(row)).length === 1, { what: 'the attempt is on record' });
    expect(await rowOf(row)).toMatchObject({ state: 'canceled', attempt_count: 1, delivered_at: null });
  });

  it('that hangs holds up no other', async () => {
    const hanging = await Promise.all(Array.from({ length: 5 }, () => receive(() => undefined)));
    const healthy = await Promise.all(Array.from({ length: 45 }, () => receive(ok)));
    for (const { endpoint } of hanging) await enqueue(endpoint, 40);
    const rows = (await Promise.all(healthy.map(({ endpoint }) => enqueue(endpoint, 10)))).flat();
    dispatch({ attemptTimeoutMs: 2_000 });
    await waitFor(() => healthy.every(({ receiver }) => new Set(idsOf(receiver)).size === 10), {
      what: 'all healthy endpoints have theirs',
      timeoutMs: 20_000,
      intervalMs: 10,
    });
    expect(healthy.reduce((sum, { receiver }) => sum + receiver.requests.length, 0)).toBe(rows.length);
    // The others have all of theirs while the ones that hang, one attempt at a time, are not a quarter through.
    for (const { receiver } of hanging) expect(receiver.requests.length).toBeLessThanOrEqual(10);
  });
});

describe('several dispatchers', () => {
  it('share the work and double nothing', async () => {
    const endpoints = await Promise.all(Array.from({ length: 8 }, () => receive(ok)));
    const rows = (await Promise.all(endpoints.map(({ endpoint }) => enqueue(endpoint, 100)))).flat();
    dispatch();
    dispatch();
    const received = () => endpoints.flatMap(({ receiver }) => idsOf(receiver));
    await waitFor(() => received().length >= rows.length, { what: 'all are there', timeoutMs: 20_000 });
    await waitFor(
      async () => {
        const { rows: left } = await installation.pool.query(
          `select from deliveries where delivery_id = any($1) and state <> 'delivered'`,
          [rows.map(({ deliveryId }) => deliveryId)],
        );
        return left.length === 0;
      },
      { what: 'all are written' },
    );
    expect(received().toSorted()).toEqual(rows.map(({ webhookId }) => webhookId).toSorted());
  });

  it('take over what a dead one held, when its lease is over and not before', async () => {
    const { receiver, endpoint } = await receive(ok);
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    const { projectId } = installation.project;
    const { endpointId } = endpoint;
    const [claim] = await claimDeliveries(installation.pool, randomUUID(), [
      { projectId, endpointId, places: 1 },
    ]);
    expect(claim?.deliveryId).toBe(row.deliveryId);
    const { lease_until: until } = await rowOf(row);
    expect(until.getTime() - (await readNowMs(installation.pool))).toBeGreaterThan(25_000);
    dispatch();
    const [other] = await enqueue(endpoint, 1);
    if (!other) throw new Error('no row');
    await stateIs(other, 'delivered');
    expect(idsOf(receiver)).toEqual([other.webhookId]);
    await makeDue(row);
    await stateIs(row, 'delivered');
    expect(idsOf(receiver)).toEqual([other.webhookId, row.webhookId]);
  });

  it('give back what they hold when they stop, after the attempts under way have ended', async () => {
    const held = Promise.withResolvers<void>();
    const { receiver, endpoint } = await receive((request, message, response) => {
      void held.promise.then(() => ok(request, message, response));
    });
    const rows = await enqueue(endpoint, 5);
    const dispatcher = startDispatcher(installation);
    await waitFor(() => receiver.requests.length === 1, { what: 'an attempt is under way' });
    const stopping = dispatcher.stop();
    held.resolve();
    await stopping;
    const after = await Promise.all(rows.map(rowOf));
    expect(after.filter(({ state }) => state === 'delivered')).toHaveLength(1);
    expect(after.filter(({ lease_owner: owner }) => owner !== null)).toEqual([]);
    expect(receiver.requests).toHaveLength(1);
  });
});

describe('a database that is away', () => {
  it('while an attempt ends loses nothing and sends nothing twice', async () => {
    const url = new URL(installation.url);
    const proxy = await TcpProxy.start({ host: url.hostname, port: Number(url.port) });
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    const pool = openPool({ databaseUrl: url.href, size: 4, applicationName: 'test' });
    ends.push(
      () => proxy.close(),
      () => pool.end(),
    );
    const held = Promise.withResolvers<void>();
    const { receiver, endpoint } = await receive((request, message, response) => {
      void held.promise.then(() => ok(request, message, response));
    });
    const [row] = await enqueue(endpoint, 1);
    if (!row) throw new Error('no row');
    dispatch({ pool });
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    await proxy.refuse();
    held.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect((await rowOf(row)).state).toBe('pending');
    await proxy.accept();
    await stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
  });
});

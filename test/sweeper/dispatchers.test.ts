// Several dispatchers on one outbox, the end of a dispatcher, and a database that goes away.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openPool } from '../../src/store/postgres/pool.ts';
import { ok } from '../support/receiver.ts';
import { startDispatcher } from '../support/sweeper-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, holding, idsOf, openDeliveryFixture } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

describe('several dispatchers', () => {
  it('several dispatchers share the deliveries and send none twice', async () => {
    const endpoints = await Promise.all(Array.from({ length: 8 }, () => fixture.receive(ok)));
    // No more than the slowest machine sends within a lease: a delivery that is claimed for longer is rightly sent again.
    const rows = (await Promise.all(endpoints.map(({ endpoint }) => fixture.enqueue(endpoint, 30)))).flat();
    fixture.dispatch();
    fixture.dispatch();
    const received = () => endpoints.flatMap(({ receiver }) => idsOf(receiver));
    await waitFor(() => received().length >= rows.length, { what: 'all are there' });
    const areWritten = async () => {
      const { rows: left } = await fixture.pool.query(
        `select from deliveries where delivery_id = any($1) and state <> 'delivered'`,
        [rows.map(({ deliveryId }) => deliveryId)],
      );
      return left.length === 0;
    };
    await waitFor(areWritten, { what: 'all are written' });
    expect(received().toSorted()).toEqual(rows.map(({ webhookId }) => webhookId).toSorted());
  });

  it('a dispatcher takes over the deliveries of a dead one when their leases end, and not before', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const row = await fixture.enqueueOne(endpoint);
    const beforeMs = await fixture.nowMs();
    const claim = await fixture.claim(endpoint);
    expect(claim.deliveries.map(({ deliveryId }) => deliveryId)).toEqual([row.deliveryId]);
    // `nowMs` rounds to milliseconds, and a Date has no microseconds: of the 30 s up to two milliseconds may be missing.
    expect((await fixture.rowOf(row)).lease_until.getTime() - beforeMs).toBeGreaterThan(29_997);
    fixture.dispatch();
    const other = await fixture.enqueueOne(endpoint);
    await fixture.stateIs(other, 'delivered');
    expect(idsOf(receiver)).toEqual([other.webhookId]);
    await fixture.makeDue(row);
    await fixture.stateIs(row, 'delivered');
    expect(idsOf(receiver)).toEqual([other.webhookId, row.webhookId]);
  });

  it('a dispatcher that stops waits for its attempts under way and gives back its leases', async () => {
    // Many times, so that a run of the loop is under way in some of them.
    for (let time = 0; time < 12; time += 1) {
      const held = holding();
      const { receiver, endpoint } = await fixture.receive(held.answer);
      const rows = await fixture.enqueue(endpoint, 5);
      const dispatcher = startDispatcher(fixture, { pollMs: 1 });
      const isUnderWay = () => receiver.requests.length === 1;
      await waitFor(isUnderWay, { what: 'an attempt is under way', intervalMs: 1 + 2 * time });
      const stopping = dispatcher.stop();
      held.release();
      await stopping;
      const after = await Promise.all(rows.map((row) => fixture.rowOf(row)));
      expect(after.filter(({ state }) => state === 'delivered')).toHaveLength(1);
      expect(after.filter(({ lease_owner: owner }) => owner !== null)).toEqual([]);
      expect(receiver.requests).toHaveLength(1);
    }
  });
});

describe('an outcome that cannot be written in time', () => {
  it('an outcome that cannot be written in time holds up no other, and is written when it can be', async () => {
    const pool = openPool({
      databaseUrl: fixture.databaseUrl,
      size: 4,
      applicationName: 'test',
      statementTimeoutMs: 500,
    });
    fixture.atEnd(() => pool.end());
    const held = holding();
    const { receiver, endpoint } = await fixture.receive(held.answer);
    const elsewhere = await fixture.receiveAt(20, held.answer);
    const row = await fixture.enqueueOne(endpoint);
    for (const other of elsewhere.endpoints) await fixture.enqueueOne(other);
    fixture.dispatch({ pool });
    const areUnderWay = () => receiver.requests.length + elsewhere.receiver.requests.length === 21;
    await waitFor(areUnderWay, { what: 'all attempts are under way' });
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('select from deliveries where project_id = $1 and delivery_id = $2 for update', [
      row.projectId,
      row.deliveryId,
    ]);
    fixture.atEnd(async () => {
      await client.query('rollback');
      client.release();
    });
    held.release();
    const ids = elsewhere.endpoints.map(({ endpointId }) => endpointId);
    const areWritten = async () => {
      const { rowCount } = await fixture.pool.query(
        "select from deliveries where endpoint_id = any ($1) and state = 'delivered'",
        [ids],
      );
      return rowCount === 20;
    };
    await waitFor(areWritten, { what: 'all others are written' });
    expect((await fixture.rowOf(row)).state).toBe('pending');
    await client.query('commit');
    await fixture.stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
  });
});

describe('a database that is away', () => {
  it('an attempt that ends while the database is away is recorded later, and nothing is sent twice', async () => {
    const proxy = await TcpProxy.start(fixture.databaseUrl);
    const pool = openPool({ databaseUrl: proxy.url, size: 4, applicationName: 'test' });
    fixture.atEnd(() => proxy.close());
    fixture.atEnd(() => pool.end());
    const held = holding();
    const { receiver, endpoint } = await fixture.receive(held.answer);
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch({ pool });
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    await proxy.refuse();
    held.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect((await fixture.rowOf(row)).state).toBe('pending');
    await proxy.accept();
    await fixture.stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
  });

  it('a dispatcher that stops while the database hangs waits for no statement, and another one sends again what it could not record', async () => {
    const proxy = await TcpProxy.start(fixture.databaseUrl);
    // No statement ends by itself: whoever waits for one waits for ever.
    const noLimits = { statementTimeoutMs: 2_000_000_000, connectTimeoutMs: 2_000_000_000 };
    const pool = openPool({ databaseUrl: proxy.url, size: 4, applicationName: 'test', ...noLimits });
    fixture.atEnd(() => pool.end());
    fixture.atEnd(() => proxy.close());
    const held = holding();
    const { receiver, endpoint } = await fixture.receive(held.answer);
    const row = await fixture.enqueueOne(endpoint);
    const dispatcher = startDispatcher({ ...fixture, pool }, { pollMs: 20 });
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    proxy.blackHole();
    await waitFor(() => pool.idleCount < pool.totalCount, { what: 'a statement hangs', intervalMs: 1 });
    held.release();
    await dispatcher.stop();
    expect(await fixture.rowOf(row)).toMatchObject({ state: 'pending', lease_owner: expect.any(String) });
    await fixture.makeDue(row);
    fixture.dispatch();
    await fixture.stateIs(row, 'delivered');
    expect(idsOf(receiver)).toEqual([row.webhookId, row.webhookId]);
  });

  it('a delivery whose outcome cannot be written for longer than its lease is not sent again', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const { receiver: other, endpoint: otherEndpoint } = await fixture.receive(ok);
    const row = await fixture.enqueueOne(endpoint);
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('set local idle_in_transaction_session_timeout = 0');
    // Outcomes are written under this lock, claims are made without it.
    await client.query('select from callback_endpoints where endpoint_id = $1 for update', [
      endpoint.endpointId,
    ]);
    fixture.dispatch();
    fixture.atEnd(async () => {
      await client.query('rollback');
      client.release();
    });
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is made' });
    await fixture.makeDue(row);
    const isTakenAgain = async () =>
      (await fixture.rowOf(row)).lease_until.getTime() > (await fixture.nowMs());
    await waitFor(isTakenAgain, { what: 'its lease is a new one' });
    await fixture.enqueueOne(otherEndpoint);
    await waitFor(() => other.requests.length === 1, { what: 'what is claimed later is sent' });
    await client.query('commit');
    await fixture.stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
  });
});

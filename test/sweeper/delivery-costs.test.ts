// What a delivery costs the database, by counters that no noise of the machine touches.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { insertDeliveries } from '../../src/store/deliveries/deliveries.ts';
import { claimDeliveries } from '../../src/store/deliveries/delivery-queue.ts';
import { writeDeliveryResults } from '../../src/store/deliveries/delivery-results.ts';
import { toNewEntry } from '../../src/store/incidents/incidents.ts';
import { describeOutcome, timelineOf } from '../../src/sweeper/deliveries/delivery-outcome.ts';
import { costsOf } from '../support/pages.ts';
import { ok } from '../support/receiver.ts';
import { makeDelivery } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture, queueOf } from './delivery-fixture.ts';

const RESULT = { delivered: true, gone: false, statusCode: 204, latencyMs: 3 };
/** As long as that of a usual alert. */
const BODY = JSON.stringify({ type: 'incident.opened', data: 'x'.repeat(850) });

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

it('a thousand deliveries to a receiver that answers take fewer than 150 claims and writes, and no longer transaction', async () => {
  const { receiver, endpoint } = await fixture.receive(ok);
  await fixture.enqueue(endpoint, 1_000);
  const statements = vi.spyOn(fixture.pool, 'query');
  const connections = vi.spyOn(fixture.pool, 'connect');
  const dispatcher = fixture.dispatch();
  await waitFor(() => receiver.requests.length === 1_000, { what: 'all are sent' });
  await dispatcher.stop();
  const names = statements.mock.calls.map(([query]) => (query as { name?: string }).name ?? '');
  // Polls take a part of the time, whatever is sent.
  const counted = names.filter((name) => !name.endsWith('due-queues'));
  expect(counted).toEqual(expect.arrayContaining(['claim-deliveries', 'write-delivery-results']));
  expect(counted.length).toBeLessThan(150);
  // The pool itself calls it with a function, for one statement.
  expect(connections.mock.calls.filter(([done]) => done === undefined)).toEqual([]);
});

it('alerts to several endpoints at once are one claim', async () => {
  const { receiver, endpoints } = await fixture.receiveAt(8, ok);
  for (const endpoint of endpoints) await fixture.enqueue(endpoint, 100);
  const claims: number[] = [];
  let emptyPolls = 0;
  const query = fixture.pool.query.bind(fixture.pool);
  vi.spyOn(fixture.pool, 'query').mockImplementation(async (...given) => {
    const answer: unknown = await query(...given);
    const { name } = given[0] as { name?: string };
    const { rows } = answer as { rows: { delivery_id: string | null }[] };
    if (name === 'find-due-queues' && rows.length === 0) emptyPolls += 1;
    if (name === 'claim-deliveries') claims.push(rows.filter((row) => row.delivery_id !== null).length);
    return answer;
  });
  const dispatcher = fixture.dispatch();
  // Each has answered often enough that more is claimed ahead for it.
  const areWritten = async () => {
    const text = `select from deliveries where state = 'pending' limit 1`;
    return receiver.requests.length === 800 && (await query(text)).rowCount === 0;
  };
  await waitFor(areWritten, { what: 'all are sent' });
  const before = emptyPolls;
  await waitFor(() => emptyPolls > before + 1, { what: 'a poll finds nothing any more' });
  claims.length = 0;
  const { project, pool } = fixture;
  const rows = endpoints.map((endpoint) => makeDelivery(project, endpoint));
  await insertDeliveries(pool, rows, await fixture.nowMs());
  dispatcher.wake();
  await waitFor(() => receiver.requests.length === 808, { what: 'the alerts are sent' });
  expect(claims.filter((count) => count > 0)).toEqual([8]);
});

it('a delivery that succeeds writes fewer than 14 records and 1,500 bytes to the write-ahead log', async () => {
  const { pool, project } = fixture;
  const { endpoint } = await fixture.receive(ok);
  await fixture.enqueue(endpoint, 64, { body: BODY });
  const owner = randomUUID();
  const wanted = [{ ...queueOf(project, endpoint), places: 64 }];
  const claim = await costsOf(pool, (db) => claimDeliveries(db, owner, wanted));
  const { deliveries } = await claimDeliveries(pool, owner, wanted);
  expect(deliveries).toHaveLength(64);
  const times = { startedAt: performance.now(), finishedAt: performance.now() };
  const described = deliveries.map((delivery) =>
    describeOutcome({ claim: delivery, kind: 'sent', result: RESULT, ...times }, times.finishedAt),
  );
  const results = described.map((of, index) => {
    const row = timelineOf(of);
    return { ...of.result, ...(row ? { entry: toNewEntry(row, index) } : {}) };
  });
  const batch = { owner, results };
  const write = await costsOf(pool, (db) => writeDeliveryResults(db, batch));
  expect((claim.walRecords + write.walRecords) / 64).toBeLessThan(14);
  expect((claim.walBytes + write.walBytes) / 64).toBeLessThan(1_500);
});

// What the state of an endpoint (gone, disabled, removed, hanging) does to its deliveries.
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { sealUrl } from '../../src/service/callbacks/endpoint-seal.ts';
import { listEndpointChanges } from '../../src/store/callbacks/endpoint-changes.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { ok, status } from '../support/receiver.ts';
import { seedMonitor } from '../support/seed.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, holding, idsOf, openDeliveryFixture } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

describe('an endpoint', () => {
  it('an endpoint that answers 410 is disabled, and its pending deliveries are canceled', async () => {
    const { receiver, endpoint } = await fixture.receive(status(410));
    const rows = await fixture.enqueue(endpoint, 5);
    fixture.dispatch();
    const isDisabled = async () => (await fixture.endpointRow(endpoint)).lifecycle === 'disabled';
    await waitFor(isDisabled, { what: 'the endpoint is disabled' });
    expect(await fixture.endpointRow(endpoint)).toMatchObject({ disabled_reason: 'gone', generation: 2 });
    await cancelAll(fixture.pool);
    const states = await Promise.all(rows.map(async (row) => (await fixture.rowOf(row)).state));
    expect(states.toSorted()).toEqual(['canceled', 'canceled', 'canceled', 'canceled', 'exhausted']);
    expect(receiver.requests).toHaveLength(1);
  });

  it('an endpoint that answers 410 to several deliveries has one change record and one audit line, by Beatkeeper itself', async () => {
    const { pool, project } = fixture;
    const lines: string[] = [];
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(line) },
    );
    const { endpoint } = await fixture.receive(status(410));
    await fixture.enqueue(endpoint, 5);
    fixture.dispatch({ log });
    fixture.dispatch({ log });
    const audited = () => lines.map((line) => JSON.parse(line)).filter(({ audit }) => audit !== undefined);
    await waitFor(() => audited().length > 0, { what: 'the audit line is there' });
    await waitFor(
      async () => (await pool.query("select from deliveries where state = 'pending'")).rowCount === 0,
      {
        what: 'no delivery is pending',
      },
    );
    const { projectId } = project;
    const { endpointId } = endpoint;
    const changes = await listEndpointChanges(pool, { projectId, endpointId }, { limit: 10 });
    expect(changes).toMatchObject([
      {
        change: { kind: 'lifecycle', action: 'disable', from: 'active', to: 'disabled' },
        details: { reason: 'gone' },
        generation: 2,
        actor: { kind: 'system' },
      },
    ]);
    expect(audited()).toMatchObject([
      {
        level: 'info',
        audit: {
          actor: { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' },
          action: 'endpoint.disable',
          object: { kind: 'endpoint', id: endpointId, projectId },
        },
      },
    ]);
  });

  it("the audit line of an inline binding's endpoint that answers 410 names the monitor, by which it is found", async () => {
    const { pool, project } = fixture;
    const lines: string[] = [];
    const log = createLog(
      { role: 'test', level: 'info' },
      { write: (line: string) => void lines.push(line) },
    );
    const { endpoint } = await fixture.receive(status(410));
    const { monitorId, monitorKey } = await seedMonitor(pool, project, {
      configuration: { binding_kind: 'inline', inline_endpoint_id: endpoint.endpointId },
    });
    await pool.query('update callback_endpoints set monitor_key = $2, alias = null where endpoint_id = $1', [
      endpoint.endpointId,
      monitorKey,
    ]);
    await fixture.enqueueOne(endpoint);
    fixture.dispatch({ log });
    const audited = () => lines.flatMap((line) => JSON.parse(line).audit ?? []);
    await waitFor(() => audited().length > 0, { what: 'the audit line is there' });
    const { projectId } = project;
    const { endpointId } = endpoint;
    expect(audited()).toEqual([
      {
        actor: { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' },
        action: 'endpoint.disable',
        object: { kind: 'monitor', id: monitorId, projectId, jurisdiction: 'unrestricted', endpointId },
      },
    ]);
  });

  it('an endpoint that has a new address when its old one answers 410 stays active, and its deliveries go to the new one', async () => {
    const held = holding();
    const old = await fixture.receive((...request) => void held.released.then(() => status(410)(...request)));
    const next = await fixture.receive(ok);
    const { pool, project, secrets } = fixture;
    const { endpointId } = old.endpoint;
    const asked = await fixture.enqueueOne(old.endpoint);
    fixture.dispatch();
    await waitFor(() => old.receiver.requests.length === 1, { what: 'the attempt is under way' });
    await pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
      endpointId,
      sealUrl(secrets, { ...project, endpointId }, `http://127.0.0.1:${next.receiver.port}/hook`),
    ]);
    const waiting = await fixture.enqueueOne(old.endpoint);
    held.release();
    await fixture.stateIs(asked, 'exhausted');
    await fixture.stateIs(waiting, 'delivered');
    expect(await fixture.endpointRow(old.endpoint)).toMatchObject({ lifecycle: 'active', generation: 1 });
    expect(idsOf(next.receiver)).toEqual([waiting.webhookId]);
  });

  it('an endpoint whose address was sealed again while it answered 410 is disabled all the same', async () => {
    const held = holding();
    const { receiver, endpoint } = await fixture.receive(
      (...request) => void held.released.then(() => status(410)(...request)),
    );
    const { pool, project, secrets } = fixture;
    const asked = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    await pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
      endpoint.endpointId,
      sealUrl(secrets, { ...project, ...endpoint }, receiver.url),
    ]);
    held.release();
    await fixture.stateIs(asked, 'exhausted');
    expect(await fixture.endpointRow(endpoint)).toMatchObject({
      lifecycle: 'disabled',
      disabled_reason: 'gone',
    });
  });

  it('an endpoint that was disabled or removed after the event gets nothing, and the timeline records why', async () => {
    const disabled = await fixture.receive(ok);
    const removed = await fixture.receive(ok);
    const { pool } = fixture;
    await pool.query(`update callback_endpoints set lifecycle = 'disabled' where endpoint_id = $1`, [
      disabled.endpoint.endpointId,
    ]);
    await pool.query(
      'update callback_endpoints set removed_at = now(), url_box = null where endpoint_id = $1',
      [removed.endpoint.endpointId],
    );
    const one = await fixture.enqueueOne(disabled.endpoint);
    const other = await fixture.enqueueOne(removed.endpoint);
    fixture.dispatch();
    await fixture.stateIs(one, 'canceled');
    await fixture.stateIs(other, 'canceled');
    expect(await fixture.timelineOf(one)).toMatchObject([{ detail: { reason: 'endpoint_disabled' } }]);
    expect(await fixture.timelineOf(other)).toMatchObject([{ detail: { reason: 'endpoint_removed' } }]);
    expect([...disabled.receiver.requests, ...removed.receiver.requests]).toEqual([]);
    expect(await fixture.attemptsOf(one)).toEqual([]);
  });

  it('a delivery that is canceled during an attempt stays canceled, and its attempt is recorded', async () => {
    const held = holding();
    const { receiver, endpoint } = await fixture.receive(held.answer);
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    await waitFor(() => receiver.requests.length === 1, { what: 'the attempt is under way' });
    await fixture.cancel(row);
    held.release();
    const isOnRecord = async () => (await fixture.attemptsOf(row)).length === 1;
    await waitFor(isOnRecord, { what: 'the attempt is on record' });
    expect(await fixture.rowOf(row)).toMatchObject({
      state: 'canceled',
      attempt_count: 1,
      delivered_at: null,
    });
  });

  it('an endpoint that hangs holds up no other', async () => {
    const hanging = await Promise.all(Array.from({ length: 5 }, () => fixture.receive(() => undefined)));
    const healthy = await Promise.all(Array.from({ length: 45 }, () => fixture.receive(ok)));
    for (const { endpoint } of hanging) await fixture.enqueue(endpoint, 40);
    const rows = (await Promise.all(healthy.map(({ endpoint }) => fixture.enqueue(endpoint, 10)))).flat();
    // The timeout is so long that no hanging attempt ends before all others have their answers.
    fixture.dispatch({ attemptTimeoutMs: 60_000 });
    await waitFor(() => healthy.every(({ receiver }) => new Set(idsOf(receiver)).size === 10), {
      what: 'all healthy endpoints have theirs',
    });
    expect(healthy.reduce((sum, { receiver }) => sum + receiver.requests.length, 0)).toBe(rows.length);
    // A receiver that has never answered gets one attempt at a time.
    await waitFor(() => hanging.every(({ receiver }) => receiver.requests.length > 0), {
      what: 'the others are asked too',
    });
    expect(hanging.map(({ receiver }) => receiver.requests.length)).toEqual([1, 1, 1, 1, 1]);
    for (const { receiver } of hanging) await receiver.close();
  });

  it('endpoints that wait for a later attempt cost little time in polls, however many they are', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const { pool } = fixture;
    await fixture.enqueueElsewhere(3_000, 3_600_000);
    const query = pool.query.bind(pool);
    const polls: { sentAt: number; endedAt: number }[] = [];
    vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
      const sentAt = performance.now();
      const answer = await query(...given);
      if (/due-queues$/.test(nameOf(given[0]))) polls.push({ sentAt, endedAt: performance.now() });
      return answer;
    });
    fixture.dispatch({ pollMs: 1 });
    await waitFor(() => polls.length >= 40, { what: 'forty polls' });
    vi.restoreAllMocks();
    // A quarter of the time, but the result of a very slow poll serves for no longer than 250 ms. Timers round.
    for (const [index, { sentAt }] of polls.entries()) {
      const before = polls[index - 1];
      if (!before) continue;
      const servesMs = Math.min(3 * (before.endedAt - before.sentAt), 250);
      expect(sentAt - before.endedAt).toBeGreaterThan(servesMs - 2);
    }
    // A new delivery is found all the same.
    const row = await fixture.enqueueOne(endpoint);
    await fixture.stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
  });
});

function nameOf(query: unknown): string {
  return typeof query === 'object' && query !== null && 'name' in query ? String(query.name) : '';
}

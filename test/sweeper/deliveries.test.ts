// A dispatcher on a real database and real receivers: what is sent, in which order, how often, and what is written.
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import { newId } from '../../src/domain/id.ts';
import { secretPlace } from '../../src/service/callbacks/endpoint-seal.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { createSweeperMetrics } from '../../src/sweeper/sweeper-metrics.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { ok, status, verifyWebhook } from '../support/receiver.ts';
import { seedEndpoint } from '../support/seed.ts';
import { startDispatcher } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, idsOf, openDeliveryFixture } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

describe('a delivery', () => {
  it('a delivery is signed, sent once, and recorded with its attempt, in the timeline and at the endpoint', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    await fixture.stateIs(row, 'delivered');
    const [request] = receiver.requests;
    expect(receiver.requests).toHaveLength(1);
    expect(request?.headers['webhook-id']).toBe(row.webhookId);
    expect(verifyWebhook(request, endpoint.secret)).toEqual(JSON.parse(row.body));
    expect(await fixture.rowOf(row)).toMatchObject({
      attempt_count: 1,
      next_attempt_at: null,
      lease_owner: null,
      delivered_at: expect.any(Date),
      ended_at: expect.any(Date),
    });
    expect(await fixture.attemptsOf(row)).toMatchObject([{ attempt: 1, status_code: 204, error: null }]);
    expect(await fixture.timelineOf(row)).toMatchObject([
      { type: 'delivery', delivery: { deliveryId: row.deliveryId, state: 'delivered' } },
    ]);
    expect(await fixture.lastDeliveryIs(endpoint, 'delivered')).toMatchObject({
      statusCode: 204,
      at: expect.any(String),
    });
  });

  it('a delivery in the overlap of a rotation is signed with both secrets, the newest first', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const newest = newSigningSecret();
    const { pool, project, secrets } = fixture;
    await pool.query(
      `update signing_secrets set ends_at = now() + interval '5 minutes' where endpoint_id = $1`,
      [endpoint.endpointId],
    );
    await pool.query(
      `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at) values ($1, $2, 2, $3, now())`,
      [
        project.projectId,
        endpoint.endpointId,
        secrets.seal(newest, secretPlace({ ...project, ...endpoint })),
      ],
    );
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    await fixture.stateIs(row, 'delivered');
    const [request] = receiver.requests;
    if (!request) throw new Error('There is no request.');
    const [first, second] = String(request.headers['webhook-signature']).split(' ');
    for (const [secret, signature] of [
      [newest, first],
      [endpoint.secret, second],
    ] as const) {
      const headers = { ...request.headers, 'webhook-signature': signature };
      expect(() => verifyWebhook({ ...request, headers }, secret)).not.toThrow();
    }
  });

  it('a delivery that fails is tried again on the schedule, with one webhook-id, until no attempt is left', async () => {
    const { receiver, endpoint } = await fixture.receive(status(500));
    const row = await fixture.enqueueOne(endpoint);
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      // Each attempt has its own dispatcher: the breaker of a single one would open.
      const dispatcher = startDispatcher(fixture, { pollMs: 20 });
      const isMade = async () => (await fixture.rowOf(row)).attempt_count === attempt;
      await waitFor(isMade, { what: 'the attempt is made' });
      await dispatcher.stop();
      const { state, next_attempt_at: nextAt, ended_at: endedAt } = await fixture.rowOf(row);
      expect(state).toBe(attempt < 8 ? 'failing' : 'exhausted');
      if (attempt === 8) expect([nextAt, endedAt]).toEqual([null, expect.any(Date)]);
      const waitMs = [5_000, 30_000, 120_000, 600_000, 3_600_000, 14_400_000, 43_200_000][attempt - 1];
      if (waitMs !== undefined) {
        // It counts from the end of the attempt, which is between its start and now.
        const last = (await fixture.attemptsOf(row)).at(-1);
        expect(nextAt.getTime() - last.at.getTime()).toBeGreaterThan(waitMs * 0.899);
        expect(nextAt.getTime() - (await fixture.nowMs())).toBeLessThan(waitMs * 1.101);
      }
      await fixture.makeDue(row);
    }
    expect(new Set(idsOf(receiver))).toEqual(new Set([row.webhookId]));
    expect(receiver.requests).toHaveLength(8);
    expect((await fixture.timelineOf(row)).map(({ delivery }) => delivery.state)).toEqual([
      'failing',
      'exhausted',
    ]);
    expect(await fixture.lastDeliveryIs(endpoint, 'exhausted')).toMatchObject({ statusCode: 500 });
  });

  it('a test delivery is never tried again', async () => {
    const { endpoint } = await fixture.receive(status(500));
    const ofTest = { event: 'callback.test', incidentId: undefined, sequence: undefined } as const;
    const row = await fixture.enqueueOne(endpoint, ofTest);
    fixture.dispatch();
    await fixture.stateIs(row, 'exhausted');
    expect(await fixture.attemptsOf(row)).toHaveLength(1);
  });

  it('a delivery that is given up counts as lost, and neither a test nor a delivery that will be tried again does', async () => {
    const registry = new Registry();
    const dispatcher = fixture.dispatch({ metrics: createSweeperMetrics(registry) });
    const lost = async () =>
      (await registry.metrics()).match(/^beatkeeper_deliveries_lost_total (\d+)$/m)?.[1];
    expect(await lost()).toBe('0'); // it is there before the first one, so that `increase` counts that
    const failing = await fixture.receive(status(500));
    const gone = await fixture.receive(status(410));
    const again = await fixture.enqueueOne(failing.endpoint);
    const ofTest = { event: 'callback.test', incidentId: undefined, sequence: undefined } as const;
    const test = await fixture.enqueueOne((await fixture.receive(status(500))).endpoint, ofTest);
    const given = await fixture.enqueueOne(gone.endpoint);
    await fixture.stateIs(again, 'failing');
    await fixture.stateIs(test, 'exhausted');
    await fixture.stateIs(given, 'exhausted');
    await dispatcher.stop();
    expect(await lost()).toBe('1');
  });

  it('a delivery to an endpoint whose address cannot be decrypted is postponed and costs no attempt', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    await fixture.pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
      endpoint.endpointId,
      Buffer.from('0102', 'hex'),
    ]);
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    const later = async () => (await fixture.rowOf(row)).next_attempt_at > new Date(Date.now() + 30_000);
    await waitFor(later, { what: 'it is put off' });
    expect(await fixture.rowOf(row)).toMatchObject({ state: 'pending', attempt_count: 0, lease_owner: null });
    expect(receiver.requests).toEqual([]);
  });
});

describe('a delivery to an endpoint whose encryption key is missing', () => {
  it('it waits without an attempt, the log names the key, and it goes out signed when the key is back', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const row = await fixture.enqueueOne(endpoint);
    const lines: string[] = [];
    const log = createLog({ role: 'test', level: 'error' }, { write: (line) => void lines.push(line) });
    const secrets = new SecretBox([{ id: 'k9', key: Buffer.alloc(32, 9) }]);
    const without = startDispatcher({ ...fixture, secrets }, { pollMs: 20, log });
    const later = async () => (await fixture.rowOf(row)).next_attempt_at > new Date(Date.now() + 30_000);
    await waitFor(later, { what: 'it is put off' });
    await without.stop();
    expect(await fixture.rowOf(row)).toMatchObject({ state: 'pending', attempt_count: 0 });
    expect(lines.join('')).toContain(`The encryption key ${ENCRYPTION_KEY.id} is not configured`);
    await fixture.makeDue(row);
    fixture.dispatch();
    await fixture.stateIs(row, 'delivered');
    expect(receiver.requests).toHaveLength(1);
    expect(() => verifyWebhook(receiver.requests[0], endpoint.secret)).not.toThrow();
  });
});

describe('the order inside an incident', () => {
  it('a later event of an incident waits until the delivery of the one before has ended', async () => {
    let failures = 1;
    const { receiver, endpoint } = await fixture.receive((...request) => {
      failures -= 1;
      (failures >= 0 ? status(500) : ok)(...request);
    });
    const rows = await fixture.enqueue(endpoint, 3, { incidentId: newId('inc') });
    const [first, , last] = rows;
    if (!first || !last) throw new Error('no rows');
    fixture.dispatch();
    await fixture.stateIs(first, 'failing');
    expect(idsOf(receiver)).toEqual([first.webhookId]);
    for (const row of rows) await fixture.makeDue(row);
    await fixture.stateIs(last, 'delivered');
    expect(idsOf(receiver)).toEqual([first.webhookId, ...rows.map(({ webhookId }) => webhookId)]);
  });

  it('an event waits for no redelivery, and is sent when the one before is canceled', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const incidentId = newId('inc');
    const farAway = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
    const before = await fixture.enqueueOne(farAway, { incidentId });
    const copy = await fixture.enqueueOne(farAway, {
      incidentId,
      sequence: 1,
      redeliveryOf: before.deliveryId,
    });
    const after = await fixture.enqueueOne(endpoint, { incidentId, sequence: 2 });
    fixture.dispatch();
    await fixture.stateIs(before, 'failing');
    await fixture.stateIs(copy, 'failing');
    expect(receiver.requests).toEqual([]);
    await fixture.cancel(before);
    await fixture.stateIs(after, 'delivered');
  });

  it('an event that waits is looked at again and again, with pauses that do not grow, and is sent after the one before', async () => {
    let release: () => void = () => undefined;
    const first = await fixture.receive((...request) => {
      release = () => ok(...request);
    });
    const second = await fixture.receive(ok);
    const incidentId = newId('inc');
    await fixture.enqueueOne(first.endpoint, { incidentId });
    await fixture.enqueueOne(second.endpoint, { incidentId, sequence: 2 });
    const looks = vi.spyOn(fixture.pool, 'query');
    const countLooks = () =>
      looks.mock.calls.filter(([statement]) => {
        const { name, values } = statement as { name?: string; values?: string[][] };
        return name === 'claim-deliveries' && values?.[2]?.includes(second.endpoint.endpointId);
      }).length;
    fixture.dispatch({ attemptTimeoutMs: 240_000 });
    await waitFor(() => first.receiver.requests.length > 0, { what: 'the first event' });
    // If they doubled they would be a quarter of an hour long in all.
    await waitFor(() => countLooks() > 12, { what: 'twelve pauses' });
    expect(second.receiver.requests).toEqual([]);
    release();
    await waitFor(() => second.receiver.requests.length > 0, { what: 'the second event' });
  });
});

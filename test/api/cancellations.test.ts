// What was pending when an endpoint was disabled or removed, or its monitor deleted: the call waits for none of it, and
// nothing of it is sent, before or after a sweeper has canceled it.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type AlertBody, type Receiver, startReceiver } from '../support/receiver.ts';
import { cancelAll, startDispatcher } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
let receiver: Receiver;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());
beforeEach(async () => {
  receiver = await startReceiver();
});
afterEach(async () => {
  await receiver.close();
  await api.pool.query("update deliveries set state = 'canceled' where state = 'pending'");
});

/** An endpoint with the alert of a monitor, which waits. */
async function makeAlert() {
  const alias = `a-${randomUUID()}`;
  const made = await api.manage.expectSuccess('createCallback', { body: { alias, url: receiver.url } });
  const params = { endpointId: made.body.endpoint.id };
  const monitor = await makeMonitor({ kind: 'named', alias });
  return {
    ...monitor,
    update: (lifecycle: 'active' | 'disabled', version: number) =>
      api.manage.expectSuccess('updateCallback', {
        params,
        body: { lifecycle },
        ifMatch: `"callback-endpoint-${version}"`,
      }),
    remove: (version: number) =>
      api.manage.expectSuccess('deleteCallback', { params, ifMatch: `"callback-endpoint-${version}"` }),
    list: async () =>
      (await api.read.expectSuccess('listDeliveries', { query: params })).body.items.map(
        ({ monitorId, state }) => [monitorId, state],
      ),
  };
}

async function makeMonitor(callback: { kind: 'named'; alias: string }) {
  const made = await api.manage.expectSuccess('createMonitor', { body: { name: randomUUID(), callback } });
  const { monitorId } = made.body;
  const fail = async () => {
    const { pathname } = new URL(made.body.publishUrl ?? '');
    expect((await fetch(`${api.url}${pathname}/fail`)).status).toBe(200);
  };
  await fail();
  return {
    monitorId,
    callback,
    erase: () => api.manage.expectSuccess('deleteMonitor', { params: { monitorId }, ifMatch: made.etag }),
  };
}

/** Runs `work` while the pending deliveries of all are locked. */
async function whileLocked(work: () => Promise<unknown>): Promise<void> {
  const client = await api.pool.connect();
  try {
    await client.query('begin');
    const { rowCount } = await client.query("select from deliveries where state = 'pending' for update");
    expect(rowCount).toBeGreaterThan(0);
    await work();
  } finally {
    await client.query('rollback');
    client.release();
  }
}

/** Sends what is due until an alert of the monitor arrives, and returns the monitors of all alerts. */
async function sendUntil(monitorId: string): Promise<string[]> {
  const dispatcher = startDispatcher(api, { pollMs: 20 });
  const monitors = () =>
    receiver.requests.map(({ body }) => (JSON.parse(body) as AlertBody).data.monitor.monitorId);
  await waitFor(() => monitors().includes(monitorId), { what: 'the alert is there' });
  await dispatcher.stop();
  return monitors();
}

describe('what is pending', () => {
  it('disabling and removing an endpoint, and deleting a monitor, wait for none of the deliveries', async () => {
    const alert = await makeAlert();
    await whileLocked(async () => {
      await alert.update('disabled', 1);
      await alert.remove(2);
      await alert.erase();
    });
    await cancelAll(api.pool);
    expect(await alert.list()).toEqual([[alert.monitorId, 'canceled']]);
  });

  it('an endpoint that is active again before a sweeper came gets nothing of what was pending when it was disabled, and all that came after', async () => {
    const before = await makeAlert();
    await before.update('disabled', 1);
    await before.update('active', 2);
    const after = await makeMonitor(before.callback);
    expect(await sendUntil(after.monitorId)).toEqual([after.monitorId]);
    expect(await before.list()).toEqual([
      [after.monitorId, 'delivered'],
      [before.monitorId, 'canceled'],
    ]);
    await cancelAll(api.pool);
    expect((await before.list())[0]).toEqual([after.monitorId, 'delivered']);
  });

  it('no alert of a deleted monitor goes out, also before a sweeper came', async () => {
    const deleted = await makeAlert();
    await deleted.erase();
    const other = await makeMonitor(deleted.callback);
    expect(await sendUntil(other.monitorId)).toEqual([other.monitorId]);
    await cancelAll(api.pool);
    expect(await deleted.list()).toEqual([
      [other.monitorId, 'delivered'],
      [deleted.monitorId, 'canceled'],
    ]);
  });
});

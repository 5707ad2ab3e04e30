// Lists of incidents and deliveries are read in the order of their ids, so every writer makes the id from the moment
// that the list shows.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

/** Rows, and those of them whose id says another moment than the column. */
async function rowsOf(table: string, id: string, time: string) {
  const { rows } = await api.pool.query(
    `select count(*)::integer as count, count(*) filter (where substr(${id}, 5, 12) <>
       lpad(to_hex((extract(epoch from ${time}) * 1000)::bigint), 12, '0'))::integer as misplaced from ${table}`,
  );
  return rows[0];
}

it('the id of an incident says when it opened, and that of a delivery when it was created', async () => {
  const { body: made } = await api.manage.expectSuccess('createCallback', {
    body: { alias: 'all', url: 'http://127.0.0.1:9/' },
  });
  const callback = { kind: 'named', alias: 'all' };
  const failing = await makeMonitor(api, { callback });
  const incidentId = await failing.fail();
  await failing.beat();
  const silent = await makeMonitor(api, { callback });
  await silent.beat();
  await api.pool.query(
    `update monitor_live l set deadline_ms = 1, wake_ms = 1 from monitors m
     where m.monitor_key = l.monitor_key and m.monitor_id = $1`,
    [silent.monitorId],
  );
  await moveClock(api.pool);
  await drain(makeSweep(api.pool));
  const { body: sent } = await api.read.expectSuccess('listIncidentDeliveries', { params: { incidentId } });
  const [delivery] = sent.items;
  if (!delivery) throw new Error('There is no delivery.');
  const params = { deliveryId: delivery.deliveryId };
  await api.manage.expectSuccess('redeliver', { params, idempotencyKey: randomUUID() });
  await api.manage.expectSuccess('testCallback', {
    params: { endpointId: made.endpoint.id },
    idempotencyKey: randomUUID(),
  });
  expect(await rowsOf('incidents', 'incident_id', 'opened_at')).toEqual({ count: 2, misplaced: 0 });
  expect(await rowsOf('deliveries', 'delivery_id', 'created_at')).toEqual({ count: 5, misplaced: 0 });
});

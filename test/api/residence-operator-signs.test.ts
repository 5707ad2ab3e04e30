// Signs of life of an operator where jurisdictions have databases of their own: each database with its monitors gets them.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api?.close());
beforeEach(() => api.restore());

const sign = (operatorId: string) => api.operator.call('signOperator', { params: { operatorId } });
const beSilent = (operatorId: string) =>
  Promise.all(
    [api.pool, api.eu].map((pool) =>
      pool.query('update operator_signs set seen_ms = seen_ms - 60000 where operator_id = $1', [operatorId]),
    ),
  );
const outages = async (operatorId: string) =>
  await Promise.all(
    [api.pool, api.eu].map(async (pool) => {
      const { rows } = await pool.query('select from_ms from operator_outages where operator_id = $1', [
        operatorId,
      ]);
      return rows.length;
    }),
  );

it.each<Jurisdiction>(['eu', 'us'])(
  'a monitor in %s is set and cleared where it lives',
  async (jurisdiction) => {
    const operatorId = `operator-${randomUUID()}`;
    const body = { name: 'Job', intervalSeconds: 3600, jurisdiction };
    const { monitorId } = (await api.manage.expectSuccess('createMonitor', { body })).body;
    const params = { monitorId };
    await api.operator.expectSuccess('setMonitorBeatenBy', { params, body: { operatorId } });
    expect((await api.read.expectSuccess('getMonitor', { params })).body).toMatchObject({
      beatenBy: operatorId,
    });
    const pools = jurisdiction === 'eu' ? [api.eu, api.pool] : [api.pool, api.eu];
    const known = pools.map((pool) =>
      pool.query('select from operator_signs where operator_id = $1', [operatorId]),
    );
    expect((await Promise.all(known)).map(({ rowCount }) => rowCount)).toEqual([1, 0]);
    await api.manage.expectSuccess('clearMonitorBeatenBy', { params });
    expect((await api.read.expectSuccess('getMonitor', { params })).body).not.toHaveProperty('beatenBy');
  },
);

it('a sign reaches all databases, and its silence is an outage in each', async () => {
  const operatorId = `operator-${randomUUID()}`;
  await sign(operatorId);
  await beSilent(operatorId);
  expect((await sign(operatorId)).status).toBe(204);
  expect(await outages(operatorId)).toEqual([1, 1]);
});

it('a database that is away keeps no sign from the others, and has the outage when it is back', async () => {
  const operatorId = `operator-${randomUUID()}`;
  await sign(operatorId);
  await beSilent(operatorId);
  await api.proxies.eu.refuse();
  expect((await sign(operatorId)).status).toBe(204);
  expect(await outages(operatorId)).toEqual([1, 0]);
  await api.restore();
  expect((await sign(operatorId)).status).toBe(204);
  expect(await outages(operatorId)).toEqual([1, 1]);
});

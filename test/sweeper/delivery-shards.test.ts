// Deliveries on a Citus cluster alone (docs/adr/0012): their outcomes are written shard by shard.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { ok } from '../support/receiver.ts';
import { seedNeighbours, splitShard } from '../support/split-shard.ts';
import { waitFor } from '../support/wait-for.ts';
import { DeliveryFixture, holding, openDeliveryFixture } from './delivery-fixture.ts';

describe.runIf(isDistributed())('outcomes on Citus', () => {
  let fixture: DeliveryFixture;
  beforeAll(async () => {
    fixture = await openDeliveryFixture();
  });
  afterEach(() => fixture.endTest());
  afterAll(() => fixture?.close());

  it('the outcomes of two projects whose shard is split during their attempts are written', async () => {
    const projects = (await seedNeighbours(fixture.pool)).map(
      (project) => new DeliveryFixture({ ...fixture, project }),
    );
    const held = holding();
    const rows = [];
    for (const project of projects) {
      const { endpoint, receiver } = await project.receive(held.answer);
      fixture.atEnd(() => project.endTest());
      rows.push({ row: await project.enqueueOne(endpoint), receiver });
    }
    fixture.dispatch();
    const areUnderWay = () => rows.every(({ receiver }) => receiver.requests.length === 1);
    await waitFor(areUnderWay, { what: 'both attempts are under way' });
    const [first] = projects;
    if (!first) throw new Error('There is no project.');
    await splitShard(fixture.pool, first.project);
    held.release();
    for (const { row } of rows) await fixture.stateIs(row, 'delivered');
    for (const { receiver } of rows) expect(receiver.requests).toHaveLength(1);
  });

  it('an endpoint whose row is locked holds up no outcome, and shows its last delivery when it is free', async () => {
    const { endpoint } = await fixture.receive(ok);
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('select from callback_endpoints where endpoint_id = $1 for update', [
      endpoint.endpointId,
    ]);
    fixture.dispatch();
    for (let round = 1; round <= 3; round += 1) {
      await fixture.stateIs(await fixture.enqueueOne(endpoint), 'delivered');
    }
    expect((await fixture.endpointRow(endpoint)).last_delivery).toBeNull();
    await client.query('commit');
    client.release();
    await fixture.lastDeliveryIs(endpoint, 'delivered');
  });
});

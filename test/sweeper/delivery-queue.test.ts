// What a claim of deliveries costs while very many wait. It counts pages and not time: no machine is too slow for it.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { claimDeliveries, type WantedDeliveries } from '../../src/store/deliveries/delivery-queue.ts';
import { type FoundQueues, findDueQueues, type QueuePoll } from '../../src/store/deliveries/due-queues.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { pagesOf as countPages } from '../support/pages.ts';
import { seedProject } from '../support/seed.ts';

const WAITING = 100_000;
/** A page of the table and some of indexes for each delivery; a claim that reads the table reads thousands. */
const MOST_PAGES = 250;

let fixture: ProjectFixture;
beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

/** Deliveries that wait at so many endpoints, one more each millisecond until `agoMs` before now. */
async function seedWaiting(
  endpoints: number,
  { count = WAITING, agoMs = 0, project = fixture.project } = {},
): Promise<void> {
  await fixture.pool.query(
    `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
       webhook_id, body, next_attempt_at, created_at)
     select $1, 'dlv_' || v.id, 'cb_' || v.n % $2::integer, $1, 'inc_' || v.id, 'incident.opened', 1, 'msg_' || v.id, '{}',
       now() - ($3 + $4::integer - v.n) * interval '1 millisecond', now()
     from generate_series(1, $4) s (n), lateral (select s.n, gen_random_uuid() as id) v`,
    [project.projectId, endpoints, agoMs, count],
  );
}

const pagesOf = (work: (db: Pick<Pool, 'query'>) => Promise<unknown>) => countPages(fixture.pool, work);

const placesAt = (endpoints: number, places: number, sinceMs?: number): WantedDeliveries[] =>
  Array.from({ length: endpoints }, (_, index) => ({
    projectId: fixture.project.projectId,
    endpoint: { projectId: fixture.project.projectId, endpointId: `cb_${index}` },
    places,
    sinceMs,
  }));

describe('a poll', () => {
  const poll = (options: Partial<QueuePoll> = {}) => findDueQueues(fixture.pool, { limit: 40, ...options });
  const idsOf = ({ due }: FoundQueues, { projectId }: { projectId: string }) =>
    due.filter((ref) => ref.projectId === projectId).map(({ endpoint }) => endpoint.endpointId);

  it('a poll looks at as many endpoints of each project, and the next one goes on behind them', async () => {
    const small = await seedProject(fixture.pool);
    await seedWaiting(50, { count: 50 });
    await seedWaiting(5, { count: 5, project: small });
    for (const withinMs of [undefined, 60_000]) {
      const first = await poll({ withinMs });
      expect(idsOf(first, fixture.project)).toHaveLength(20);
      expect(idsOf(first, small)).toHaveLength(5);
      const second = await poll({ withinMs, after: first.cut });
      const third = await poll({ withinMs, after: second.cut });
      expect(idsOf(third, fixture.project)).toHaveLength(10);
      expect(third.cut).toEqual([]);
      expect(idsOf(third, small)).toEqual(idsOf(first, small));
      const all = [first, second, third].flatMap((found) => idsOf(found, fixture.project));
      expect(all.toSorted()).toEqual(Array.from({ length: 50 }, (_, index) => `cb_${index}`).toSorted());
    }
  });

  it("a poll finds another project's endpoint at little cost when 100,000 of one project wait, due or not", async () => {
    const small = await seedProject(fixture.pool);
    for (const agoMs of [0, -3_600_000]) {
      await seedWaiting(WAITING, { agoMs });
      await seedWaiting(1, { count: 1, project: small });
      await fixture.pool.query('vacuum analyze deliveries');
      expect(idsOf(await poll(), small)).toEqual(['cb_0']);
      expect(await pagesOf((db) => findDueQueues(db, { limit: 40 }))).toBeLessThan(MOST_PAGES);
      await fixture.pool.query('truncate deliveries');
    }
  });
});

describe('a claim of 10 out of very many deliveries that wait', () => {
  for (const endpoints of [1, 100, 10_000]) {
    const wanted = () => placesAt(Math.min(endpoints, 10), endpoints === 1 ? 10 : 1);
    const claim = () => pagesOf((db) => claimDeliveries(db, randomUUID(), wanted()));

    it(`a claim reads few pages when 100,000 wait at ${endpoints === 1 ? 'one endpoint' : `${endpoints} endpoints`}, with new statistics and without`, async () => {
      await seedWaiting(endpoints);
      expect(await claim()).toBeLessThan(MOST_PAGES);
      await fixture.pool.query('vacuum analyze deliveries');
      expect(await claim()).toBeLessThan(MOST_PAGES);
      const { deliveries: claimed } = await claimDeliveries(fixture.pool, randomUUID(), wanted());
      expect(new Set(claimed.map(({ deliveryId }) => deliveryId)).size).toBe(10);
    });
  }

  it('a claim that knows the first one reads few pages under an old snapshot, which keeps as many that have ended', async () => {
    const count = 20_000;
    await seedWaiting(1, { count, agoMs: 1_000_000 });
    const elsewhere = new pg.Client({ connectionString: fixture.databaseUrl });
    await elsewhere.connect();
    try {
      await elsewhere.query('begin isolation level repeatable read');
      await elsewhere.query('select from organizations');
      await fixture.pool.query(
        `update deliveries set state = 'delivered', next_attempt_at = null, delivered_at = now(), ended_at = now()`,
      );
      await seedWaiting(1, { count });
      const { due } = await findDueQueues(fixture.pool, { limit: 10 });
      const claim = (sinceMs?: number) =>
        pagesOf((db) => claimDeliveries(db, randomUUID(), placesAt(1, 10, sinceMs)));
      expect(await claim(due[0]?.firstMs)).toBeLessThan(MOST_PAGES);
      // The test can fail: without the bound the claim reads what the old snapshot keeps.
      expect(await claim()).toBeGreaterThan(MOST_PAGES);
      const full = await pagesOf((db) => findDueQueues(db, { limit: 10 }));
      const short = await pagesOf((db) => findDueQueues(db, { limit: 10, withinMs: 1_000 }));
      // It reads the index, but no row of what has ended.
      expect(short).toBeLessThan(full / 2);
    } finally {
      await elsewhere.end();
    }
  });
});

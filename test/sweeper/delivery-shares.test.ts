// One project delays no other: attempts are shared by project, then by endpoint. Receivers hang for longer than a test
// takes, so what arrives did not wait for them.
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { ok, type Receiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, idsOf, openDeliveryFixture } from './delivery-fixture.ts';

/** Attempts of one process. */
const PLACES = 512;
const HANGING_MS = { attemptTimeoutMs: 200_000 };

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

/** A project with so many due deliveries, each at an endpoint of its own that never answers. */
async function hang(endpoints: number) {
  const project = await fixture.neighbour();
  const at = await project.receiveAt(endpoints, () => undefined);
  for (const endpoint of at.endpoints) await project.enqueue(endpoint, 1);
  return { project, receiver: at.receiver };
}

/** Sends alerts to some endpoints, and returns when the receiver has all of them. */
async function alert(): Promise<void> {
  const { receiver, endpoints } = await fixture.receiveAt(10);
  for (let round = 1; round <= 3; round += 1) {
    for (const endpoint of endpoints) await fixture.enqueue(endpoint, 2);
    const areThere = () => new Set(idsOf(receiver)).size === round * 20;
    await waitFor(areThere, { what: "the other project's alerts are there" });
  }
}

const asked = (receiver: Receiver) => receiver.requests.length;

/** The deliveries of a project that no dispatcher has touched. */
async function untouched({ project: { projectId }, pool }: DeliveryFixture): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from deliveries
     where project_id = $1 and state = 'pending' and attempt_count = 0 and lease_owner is null
       and next_attempt_at <= created_at and first_at is null`,
    [projectId],
  );
  return rows[0]?.count ?? Number.NaN;
}

async function delivered({ project: { projectId }, pool }: DeliveryFixture): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from deliveries
     where project_id = $1 and state = 'delivered'`,
    [projectId],
  );
  return rows[0]?.count ?? Number.NaN;
}

describe('shares', () => {
  it("another project's alerts all arrive while 700 endpoints of one project hang, and what waits for its share was not attempted", async () => {
    const { project, receiver } = await hang(700);
    fixture.dispatch(HANGING_MS);
    await waitFor(() => asked(receiver) === PLACES / 2, { what: 'the project has its share' });
    await alert();
    expect(asked(receiver)).toBe(PLACES / 2);
    expect(await untouched(project)).toBe(700 - PLACES / 2);
    await receiver.close();
  });

  it("another project's alerts all arrive at two sweepers while 700 endpoints of one project hang", async () => {
    const { project, receiver } = await hang(700);
    for (let sweeper = 0; sweeper < 2; sweeper += 1) fixture.dispatch(HANGING_MS);
    await waitFor(() => asked(receiver) === PLACES, { what: 'the project has its share of both' });
    await alert();
    expect(asked(receiver)).toBe(PLACES);
    expect(await untouched(project)).toBe(700 - PLACES);
    await receiver.close();
  });

  it("another project's alerts all arrive while the endpoints of three projects hang, which have a quarter of the attempts each", async () => {
    const hanging = [await hang(300), await hang(300), await hang(300)];
    fixture.dispatch(HANGING_MS);
    const counts = () => hanging.map(({ receiver }) => asked(receiver));
    await waitFor(() => counts().every((count) => count === PLACES / 4), { what: 'each has its share' });
    await alert();
    expect(counts()).toEqual(hanging.map(() => PLACES / 4));
    for (const { receiver } of hanging) await receiver.close();
  });

  it("another project's alerts are sent while outcomes of one project can't be written, and that one has its share alone", async () => {
    const project = await fixture.neighbour();
    const { receiver, endpoints } = await project.receiveAt(400, ok);
    for (const endpoint of endpoints) await project.enqueue(endpoint, 1);
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('set local idle_in_transaction_session_timeout = 0');
    // Outcomes of these endpoints are written under this lock.
    await client.query('select from callback_endpoints where project_id = $1 for update', [
      project.project.projectId,
    ]);
    fixture.dispatch();
    fixture.atEnd(async () => {
      await client.query('rollback');
      client.release();
    });
    await waitFor(() => asked(receiver) === PLACES / 2, { what: 'the project has its share' });
    // More than there are places: they go out only if their outcomes are written.
    const neighbour = await fixture.neighbour();
    const other = await neighbour.receiveAt(10);
    for (const endpoint of other.endpoints) await neighbour.enqueue(endpoint, 60);
    const areWritten = async () => (await delivered(neighbour)) === 600;
    await waitFor(areWritten, { what: "the other project's alerts are delivered" });
    expect(new Set(idsOf(other.receiver)).size).toBe(600);
    expect(asked(receiver)).toBe(PLACES / 2);
    await client.query('commit');
    await waitFor(() => asked(receiver) === 400, { what: 'the rest goes out' });
  });

  it("another project's alert at the default endpoint goes out while very many of one project wait there, and so do all of those", async () => {
    const project = await fixture.neighbour();
    const other = await fixture.neighbour();
    const held = Promise.withResolvers<void>();
    const { receiver, endpoint } = await fixture.receive((...request) => {
      if (receiver.requests.length < 50) ok(...request);
      else void held.promise.then(() => ok(...request));
    });
    const atDefault = { endpointProjectId: fixture.project.projectId };
    await project.enqueue(endpoint, 1_000, atDefault);
    const alert = await other.enqueueOne(endpoint, atDefault);
    fixture.dispatch();
    await waitFor(() => idsOf(receiver).includes(alert.webhookId), { what: 'the alert is there' });
    // Those that were asked for before it, and the first that are held.
    expect(receiver.requests.length).toBeLessThan(100);
    held.resolve();
    await waitFor(() => new Set(idsOf(receiver)).size === 1_001, { what: 'all are there' });
  });

  it('projects that send to one endpoint have a share of the attempts each', async () => {
    const projects = [await fixture.neighbour(), await fixture.neighbour()];
    const { receiver, endpoints } = await fixture.receiveAt(700, () => undefined);
    for (const [index, endpoint] of endpoints.entries()) {
      const atDefault = { endpointProjectId: fixture.project.projectId };
      await projects[index % 2]?.enqueueOne(endpoint, atDefault);
    }
    fixture.dispatch(HANGING_MS);
    // A third each. Of one project alone it would be half of the places.
    await waitFor(() => asked(receiver) === 342, { what: 'both have their share' });
    await alert();
    await receiver.close();
  });

  it("alerts go out while the database breaks off each claim that has one project's deliveries among others", async () => {
    const project = await fixture.neighbour();
    const { receiver, endpoints } = await project.receiveAt(3, ok);
    for (const endpoint of endpoints) await project.enqueue(endpoint, 1);
    const { pool } = fixture;
    const query = pool.query.bind(pool);
    const isBrokenOff = (statement: unknown) => {
      const { name, values = [] } = statement as { name?: string; values?: unknown[] };
      return name === 'claim-deliveries' && (values[0] as string[]).includes(project.project.projectId);
    };
    vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
      if (!isBrokenOff(given[0])) return await query(...given);
      throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
    });
    fixture.dispatch();
    await alert();
    expect(receiver.requests).toEqual([]);
    vi.restoreAllMocks();
    await waitFor(() => asked(receiver) === 3, { what: 'its own go out when claims succeed again' });
  });
});

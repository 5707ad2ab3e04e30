// What beats know of their project and organization: how soon a change reaches them, and what that costs.
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { type DirectoryEntry, MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedProject, seedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const MINUTE_MS = 60_000;

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());
afterEach(() => {
  vi.useRealTimers();
});

const setPlan = ({ organizationId }: SeedProject, plan: string) =>
  fixture.pool.query('update organizations set plan = $2 where organization_id = $1', [organizationId, plan]);

/** A directory whose clock stands, and the statements that it sends. */
function openDirectory() {
  const { pool } = fixture;
  const sent: { name: string; values: unknown[][] }[] = [];
  const clock = { nowMs: 0, isAway: false };
  const errors: unknown[] = [];
  const query = (statement: { name: string; values: unknown[][] }) => {
    sent.push(statement);
    return clock.isAway ? Promise.reject(new Error('away')) : pool.query(statement as never);
  };
  const directory = new MonitorDirectory({
    db: { query } as never,
    minimumIntervalMs: MINUTE_MS,
    onError: (error) => errors.push(error),
    now: () => clock.nowMs,
  });
  return { directory, sent, clock, errors };
}

async function load(directory: MonitorDirectory, address: string): Promise<DirectoryEntry> {
  const entry = await directory.load(address);
  if (!entry) throw new Error('the address is not known');
  return entry;
}

it('a change of plan, service state or project name by SQL reaches every cached address with the next round', async () => {
  const project = await seedProject(fixture.pool);
  const monitors = await seedMonitors(fixture.pool, project, 3);
  const { directory, sent } = openDirectory();
  const entries = await Promise.all(monitors.map(({ address }) => load(directory, address)));
  sent.length = 0;
  await fixture.pool.query(
    "update organizations set plan = 'free', service_state = 'canceled' where organization_id = $1",
    [project.organizationId],
  );
  await fixture.pool.query("update projects set name = 'renamed' where project_id = $1", [project.projectId]);
  await directory.tenants.refresh();
  for (const [index, { address }] of monitors.entries()) {
    expect(directory.peek(address)).toBe(entries[index]);
    expect(directory.peek(address)?.tenant).toMatchObject({
      planId: 'free',
      serviceState: 'canceled',
      projectName: 'renamed',
    });
  }
  expect(sent.map(({ values }) => values)).toEqual([[[project.projectId]]]);
});

it('a round begins every 2.5 s', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const project = await seedProject(fixture.pool);
  const { address } = await seedMonitor(fixture.pool, project);
  const { directory } = openDirectory();
  directory.tenants.start();
  const { tenant } = await load(directory, address);
  for (const plan of ['free', 'smart']) {
    await setPlan(project, plan);
    vi.advanceTimersByTime(2_500);
    await waitFor(() => tenant.planId === plan);
    // The answer is there, so the round has ended with this turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  directory.tenants.stop();
});

it('a round asks for 1,000 projects in a statement, and for each project once', async () => {
  const { pool } = fixture;
  const projects = await Promise.all(Array.from({ length: 30 }, () => seedProject(pool)));
  const monitors = (await Promise.all(projects.map((project) => seedMonitors(pool, project, 2)))).flat();
  const { directory, sent } = openDirectory();
  const entries = await Promise.all(monitors.map(({ address }) => load(directory, address)));
  const [{ tenant }] = entries as [DirectoryEntry];
  // Projects that are gone are asked for too: 2,500 in all.
  for (let index = 0; index < 2_470; index += 1)
    directory.tenants.share(crypto.randomUUID(), { ...tenant }, 0);
  sent.length = 0;
  await directory.tenants.refresh();
  expect(sent.map(({ values }) => values[0]?.length)).toEqual([1_000, 1_000, 500]);
  expect(new Set(sent.flatMap(({ values }) => values[0])).size).toBe(2_500);
});

it('while the database is away the old facts serve, and the next round has the new ones', async () => {
  const project = await seedProject(fixture.pool);
  const { address } = await seedMonitor(fixture.pool, project);
  const { directory, clock, errors } = openDirectory();
  await load(directory, address);
  await setPlan(project, 'free');
  clock.isAway = true;
  await directory.tenants.refresh();
  expect(directory.peek(address)?.tenant.planId).toBe('scale');
  expect(errors).toEqual([new Error('away')]);
  clock.isAway = false;
  await directory.tenants.refresh();
  expect(directory.peek(address)?.tenant.planId).toBe('free');
});

it('a round asks for nothing once no address of the project serves from the cache any more', async () => {
  const project = await seedProject(fixture.pool);
  const { address } = await seedMonitor(fixture.pool, project);
  const { directory, sent, clock } = openDirectory();
  await load(directory, address);
  clock.nowMs = 10 * MINUTE_MS;
  await directory.tenants.refresh();
  expect(sent).toHaveLength(2);
  clock.nowMs += 1;
  await directory.tenants.refresh();
  expect(sent).toHaveLength(2);
  expect(directory.peek(address)).toBeUndefined();
  await setPlan(project, 'free');
  expect((await load(directory, address)).tenant.planId).toBe('free');
});

it('what was read before the last round does not replace what the round has read', async () => {
  const project = await seedProject(fixture.pool);
  const { address } = await seedMonitor(fixture.pool, project);
  const { directory, clock } = openDirectory();
  const { tenant } = await load(directory, address);
  const older = { ...tenant };
  await setPlan(project, 'free');
  clock.nowMs = 2_500;
  await directory.tenants.refresh();
  expect(directory.tenants.share(project.projectId, older, 2_499)).toBe(tenant);
  expect(tenant.planId).toBe('free');
  directory.tenants.share(project.projectId, older, 2_501);
  expect(tenant.planId).toBe('scale');
});

it('in two replicas beats of a suspended organization are refused while their addresses are cached', async () => {
  const api: ApiFixture = await openApiFixture();
  try {
    const urls = [api.url, (await api.startReplica()).url];
    const { address } = await seedMonitor(api.pool, api);
    const statuses = () =>
      Promise.all(urls.map(async (url) => (await fetch(`${url}/ping/${address}`)).status));
    const setState = (state: string) =>
      api.pool.query('update organizations set service_state = $2 where organization_id = $1', [
        api.organizationId,
        state,
      ]);
    expect(await statuses()).toEqual([200, 200]);
    await setState('abuse_suspended');
    await waitFor(async () => (await statuses()).every((status) => status === 403));
    await setState('active');
    await waitFor(async () => (await statuses()).every((status) => status === 200));
  } finally {
    await api.close();
  }
});

// The count of callback endpoints that the plan limits: always as many as live in the organization, inline ones included.
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sweepRestoreWindows } from '../../src/sweeper/upkeep/sweep-restore-windows.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { makeParts } from '../support/sweeper-fixture.ts';

let api: ApiFixture;
beforeEach(async () => {
  api = await openApiFixture({ plan: 'free' });
});
afterEach(async () => {
  await api?.close();
});

const HOOK = 'http://127.0.0.1:9/';
const INLINE = { kind: 'inline', url: HOOK };
const NAMED = { kind: 'named', alias: 'elsewhere' };
const DEFAULT = { kind: 'organization_default' };

const create = async (callback: object = INLINE, monitorId?: string) =>
  await api.manage.call('createMonitor', {
    body: { name: 'Job', intervalSeconds: 300, callback, monitorId },
  });

async function bind(monitorId: string, binding: object, more: { rotateSigningSecret?: boolean } = {}) {
  const ifMatch = await etagOf(monitorId);
  return await api.manage.call('setMonitorBinding', {
    params: { monitorId },
    ifMatch,
    body: { binding, ...more },
  });
}

async function turn(monitorId: string, action: string) {
  const ifMatch = await etagOf(monitorId);
  return await api.manage.call('changeMonitorLifecycle', {
    params: { monitorId },
    ifMatch,
    body: { action },
  });
}

async function remove(monitorId: string) {
  return await api.manage.call('deleteMonitor', { params: { monitorId }, ifMatch: await etagOf(monitorId) });
}

async function etagOf(monitorId: string): Promise<string> {
  return (await api.manage.expectSuccess('getMonitor', { params: { monitorId } })).etag ?? '';
}

/** The organization's count, which is compared with its rows. */
async function counted(): Promise<number> {
  const { rows } = await api.pool.query<{ count: number; living: number }>(
    `select o.callback_endpoints as count, (
       select count(*)::integer from callback_endpoints e join projects p using (project_id)
       where p.organization_id = o.organization_id and e.removed_at is null) as living
     from organizations o where o.organization_id = $1`,
    [api.organizationId],
  );
  const { count, living } = rows[0] ?? {};
  expect(count).toBe(living);
  return count ?? Number.NaN;
}

it('the count of endpoints is that of living ones through every change of a binding and of its monitor', async () => {
  await api.pool.query("update organizations set plan = 'scale'");
  const { monitorId } = (await create()).body;
  expect(await counted()).toBe(1);
  expect((await create(INLINE, monitorId)).status).toBe(409);
  expect(await counted()).toBe(1);
  const steps: [() => Promise<{ status: number }>, number][] = [
    [() => bind(monitorId, { ...INLINE, url: `${HOOK}other` }), 1],
    [() => bind(monitorId, INLINE, { rotateSigningSecret: true }), 1],
    [() => bind(monitorId, NAMED), 0],
    [() => bind(monitorId, DEFAULT), 0],
    [() => bind(monitorId, INLINE), 1],
    [() => turn(monitorId, 'pause'), 1],
    [() => turn(monitorId, 'archive'), 1],
    [() => turn(monitorId, 'restore'), 1],
    [() => bind(monitorId, { kind: 'disabled' }), 0],
    [() => bind(monitorId, INLINE), 1],
    [() => remove(monitorId), 0],
  ];
  for (const [step, count] of steps) {
    expect((await step()).status).toBeLessThan(300);
    expect(await counted()).toBe(count);
  }
});

it('the count of endpoints falls when the time to restore an archived monitor is over, and when one is deleted', async () => {
  const [first, second] = [(await create()).body.monitorId, (await create()).body.monitorId];
  for (const monitorId of [first, second]) await turn(monitorId, 'archive');
  expect(await counted()).toBe(2);
  await remove(first);
  expect(await counted()).toBe(1);
  await api.pool.query(`update monitors set restorable_until = now() - interval '1 second'`);
  await sweepRestoreWindows({ pool: api.pool, slowPool: api.pool, ...makeParts() });
  expect(await counted()).toBe(0);
});

it('inline endpoints of all projects and endpoints that people manage take one allowance, also at once', async () => {
  const { body: project } = await api.owner.expectSuccess('createProject', { body: { name: 'second' } });
  const clients = [api.manage, api.owner.as(api.tokens.owner, project.projectId)];
  const waiting = (await create(NAMED)).body.monitorId;
  const answers = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const client = clients[index % 2] ?? api.manage;
      const monitor = { name: 'Job', intervalSeconds: 300, callback: INLINE };
      if (index < 4) return await client.call('createMonitor', { body: monitor });
      return await client.call('createCallback', { body: { alias: `a-${randomUUID()}`, url: HOOK } });
    }),
  );
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(2);
  const refused = answers.filter(({ status }) => status !== 201).map(({ problem }) => problem);
  refused.push((await bind(waiting, INLINE)).problem);
  expect(refused.at(-1)?.fieldErrors).toMatchObject([{ code: 'plan_limit', path: 'binding' }]);
  expect((await create()).problem?.fieldErrors).toMatchObject([{ code: 'plan_limit', path: 'callback' }]);
  for (const problem of refused) {
    expect(problem).toMatchObject({
      status: 403,
      code: 'service.plan_limit_reached',
      limit: { dimension: 'callback_endpoints', limit: 2, current: 2, attempted: 3, plan: { id: 'free' } },
    });
  }
  expect(await counted()).toBe(2);
  expect(
    (await api.manage.expectSuccess('getMonitorBinding', { params: { monitorId: waiting } })).body,
  ).toMatchObject({
    binding: NAMED,
  });
});

it('the count of endpoints is that of living ones after changes of one monitor and its neighbours at once', async () => {
  await api.pool.query("update organizations set plan = 'scale'");
  const ids = await Promise.all(Array.from({ length: 4 }, async () => (await create()).body.monitorId));
  const bindings = [INLINE, NAMED, DEFAULT, INLINE];
  for (let round = 0; round < 4; round += 1) {
    // Of two changes with one version only one is made.
    const changes = ids.flatMap((monitorId, place) => [
      bind(monitorId, bindings[(round + place) % 4] ?? INLINE),
      bind(monitorId, bindings[(round + place + 1) % 4] ?? INLINE),
    ]);
    await Promise.all(changes);
    await counted();
  }
  await Promise.all(
    ids.flatMap((monitorId) =>
      [remove(monitorId), remove(monitorId)].map((one) => one.catch(() => undefined)),
    ),
  );
  expect(await counted()).toBe(0);
});

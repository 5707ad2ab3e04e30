// Calls that run at the same time are shared by project, then by principal: one reader or one project stops nobody else.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { seedCredential } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

/** Of each kind. One principal may have a third of them. */
const CALLS = 30;
const SHARE = CALLS / 3;

let api: ApiFixture;
let hanging: Receiver;
/** Paths of publish addresses. */
let addresses: string[] = [];
beforeAll(async () => {
  api = await openApiFixture({ config: { openCalls: { working: CALLS, held: CALLS } } });
  hanging = await startReceiver(() => undefined);
});
afterEach(async () => {
  // A first beat ends all waits for it.
  for (const path of addresses) await fetch(`${api.url}${path}`);
  addresses = [];
  await openAre(0);
});
afterAll(async () => {
  await hanging?.close();
  await api?.close();
});

async function open(): Promise<number> {
  const metric = api.telemetry.registry.getSingleMetric('beatkeeper_api_requests_in_flight');
  return (await metric?.get())?.values[0]?.value ?? Number.NaN;
}

const openAre = (count: number) =>
  waitFor(async () => (await open()) === count, { what: `${count} calls are open` });

async function makeMonitor(client: ApiClient): Promise<string> {
  const { monitorId, publishUrl } = (await client.expectSuccess('createMonitor', { body: { name: 'Job' } }))
    .body;
  addresses.push(new URL(publishUrl ?? '').pathname);
  return monitorId;
}

/** Waits for a first beat, which comes when the test ends. */
function hold(client: ApiClient, monitorId: string, waitSeconds = 30) {
  return client.call('getFirstBeat', { params: { monitorId }, query: { waitSeconds } });
}

/** Holds so many calls open. */
async function holdMany(client: ApiClient, monitorId: string, count: number): Promise<void> {
  const before = await open();
  for (let index = 0; index < count; index += 1) hold(client, monitorId).catch(() => undefined);
  await openAre(before + count);
}

it("one reader's held calls leave room for another principal of its project, another project and the operator", async () => {
  const monitorId = await makeMonitor(api.manage);
  const foreignId = await makeMonitor(api.other.manage);
  await holdMany(api.read, monitorId, SHARE);
  const feed = { query: { waitSeconds: 30 } };
  for (const refused of [await hold(api.read, monitorId), await api.read.call('getStatusFeed', feed)]) {
    expect(refused.problem).toMatchObject({
      status: 429,
      code: 'service.rate_limited',
      retryable: true,
      detail: expect.stringMatching(/has 10 calls open .* wait for Retry-After, then try again/),
    });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  }
  for (const [client, id] of [
    [api.manage, monitorId],
    [api.viewer, monitorId],
    [api.operator, monitorId],
    [api.other.manage, foreignId],
  ] as const) {
    expect((await hold(client, id, 1)).status).toBe(200);
  }
  expect((await api.read.call('getMonitor', { params: { monitorId } })).status).toBe(200);
});

it('a project of many readers leaves room for another project and for the operator in its own', async () => {
  const { projectId } = api;
  const monitorId = await makeMonitor(api.manage);
  const foreignId = await makeMonitor(api.other.manage);
  const readers = await Promise.all(
    Array.from({ length: CALLS / 2 }, () => seedCredential(api.pool, { projectId, preset: 'read' })),
  );
  for (const token of readers) await holdMany(api.read.as(token), monitorId, 1);
  expect((await hold(api.manage, monitorId)).problem).toMatchObject({
    status: 429,
    detail: expect.stringMatching(/^The project has 15 calls open/),
  });
  expect((await hold(api.operator, monitorId, 1)).status).toBe(200);
  expect((await hold(api.other.manage, foreignId, 1)).status).toBe(200);
});

it('the share of a session is one, however many projects it names', async () => {
  const inProject = async (name: string) => {
    await api.operator.expectSuccess('createProject', { body: { name } });
    const client = (token: string) => createApiClient({ url: api.url, token, project: name });
    return { viewer: client(api.tokens.viewer), member: client(api.tokens.member) };
  };
  const [first, second] = [await inProject('first'), await inProject('second')];
  const [firstId, secondId] = [await makeMonitor(first.member), await makeMonitor(second.member)];
  await holdMany(first.viewer, firstId, SHARE / 2);
  await holdMany(second.viewer, secondId, SHARE / 2);
  for (const refused of [await hold(first.viewer, firstId), await hold(second.viewer, secondId)]) {
    expect(refused.problem).toMatchObject({
      status: 429,
      detail: expect.stringMatching(/^This credential or session has 10 calls open/),
    });
  }
  expect((await hold(second.member, secondId, 1)).status).toBe(200);
});

it("test deliveries of one principal to receivers that hang leave room for others' calls and tests", async () => {
  const answering = await startReceiver();
  const makeEndpoint = async (client: ApiClient, url: string) => {
    const made = await client.expectSuccess('createCallback', { body: { alias: `a-${randomUUID()}`, url } });
    return { params: { endpointId: made.body.endpoint.id } };
  };
  const endpoints = await Promise.all(
    Array.from({ length: SHARE }, () => makeEndpoint(api.manage, `${hanging.url}/${randomUUID()}`)),
  );
  const tests = endpoints.map((call) => api.manage.call('testCallback', call));
  await waitFor(() => hanging.requests.length === SHARE, { what: 'all tests are under way' });
  expect((await api.manage.call('listMonitors')).problem).toMatchObject({ status: 429 });
  expect((await api.read.call('listMonitors')).status).toBe(200);
  const foreign = await makeEndpoint(api.other.manage, answering.url);
  expect((await api.other.manage.call('testCallback', foreign)).body.delivered).toBe(true);
  await hanging.close();
  for (const { status } of await Promise.all(tests)) expect(status).toBe(200);
  await answering.close();
});

it('a stranger holds no call', async () => {
  const monitorId = await makeMonitor(api.manage);
  const calls = Array.from({ length: 2 * CALLS }, () => hold(api.anonymous, monitorId));
  for (const { status } of await Promise.all(calls)) expect(status).toBe(401);
  await holdMany(api.read, monitorId, SHARE);
});

// The database is shared by project: one whose calls take long, or are very many, keeps no other one waiting.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const CALLS = 400;
const CONNECTIONS = 4;

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture({ config: { databasePool: CONNECTIONS } });
  // Known from here on: only the calls themselves need the database.
  for (const client of [api.manage, api.other.manage, api.operator])
    await client.expectSuccess('listIncidents');
});
afterAll(() => api?.close());

/** Nobody reads endpoints until the work is done. */
async function withEndpointsLocked(work: () => Promise<void>): Promise<void> {
  const holder = await api.pool.connect();
  try {
    await holder.query('begin');
    await holder.query('lock table callback_endpoints in access exclusive mode');
    await work();
  } finally {
    await holder.query('rollback');
    holder.release();
  }
}

/** Calls that need what is locked. */
function startCalls(client: ApiClient, count = CALLS) {
  const started = { answered: 0, answers: [] as ReturnType<typeof list>[] };
  const list = async () => {
    const { status, headers, problem } = await client.call('listCallbacks');
    started.answered += 1;
    return { status, headers, problem };
  };
  for (let index = 0; index < count; index += 1) started.answers.push(list());
  return started;
}

async function metric(name: string): Promise<number> {
  const { values } = (await api.telemetry.registry.getSingleMetric(name)?.get()) ?? {};
  return values?.[0]?.value ?? Number.NaN;
}

const waiting = () => metric('beatkeeper_api_database_waiting');

it("another project's call is answered while hundreds of one project's calls wait for the database", async () => {
  let calls: ReturnType<typeof startCalls> | undefined;
  await withEndpointsLocked(async () => {
    calls = startCalls(api.manage);
    await waitFor(async () => (await waiting()) === CALLS - CONNECTIONS / 2, { what: 'the calls wait' });
    expect((await api.other.manage.call('listIncidents')).status).toBe(200);
    expect((await api.operator.call('listIncidents')).status).toBe(200);
    expect((await api.operator.call('createProject', { body: { name: 'new' } })).status).toBe(201);
    expect(calls.answered).toBe(0);
  });
  for (const { status } of await Promise.all(calls?.answers ?? [])) expect(status).toBe(200);
  expect(await waiting()).toBe(0);
});

it('calls of projects that wait for the database are served in turns', async () => {
  const order: string[] = [];
  let many: Promise<unknown>[] = [];
  let few: Promise<unknown>[] = [];
  await withEndpointsLocked(async () => {
    const note = (name: string) => async (answer: Promise<unknown>) => {
      await answer;
      order.push(name);
    };
    many = startCalls(api.manage).answers.map(note('many'));
    await waitFor(async () => (await waiting()) === CALLS - CONNECTIONS / 2, {
      what: 'the first calls wait',
    });
    few = startCalls(api.other.manage, 10).answers.map(note('few'));
    // One of its calls is under way, on the last connection but one.
    await waitFor(async () => (await waiting()) === CALLS - CONNECTIONS / 2 + 9, { what: 'the others wait' });
  });
  await Promise.all([...many, ...few]);
  expect(order.lastIndexOf('few')).toBeLessThan(CALLS / 2);
});

it('a call whose turn does not come in time is refused with 503 and Retry-After, and the next ones succeed', async () => {
  let calls: ReturnType<typeof startCalls> | undefined;
  await withEndpointsLocked(async () => {
    calls = startCalls(api.manage, 20);
    await Promise.all(calls.answers);
  });
  const refused = await Promise.all(calls?.answers ?? []);
  for (const { status, headers } of refused) {
    expect(status).toBe(503);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect(
    refused.filter(({ problem }) => problem?.detail.startsWith('The database is busy')).length,
  ).toBeGreaterThan(10);
  expect(await waiting()).toBe(0);
  expect((await api.manage.call('listCallbacks')).status).toBe(200);
});

it('calls that wait for a first beat keep no other call of their project from the database', async () => {
  const { body } = await api.manage.expectSuccess('createMonitor', { body: { name: 'Held' } });
  const call = { params: { monitorId: body.monitorId }, query: { waitSeconds: 30 } };
  let answered = 0;
  const holds = Array.from({ length: 3 * CONNECTIONS }, async () => {
    const answer = await api.manage.call('getFirstBeat', call);
    answered += 1;
    return answer.body.state;
  });
  const open = () => metric('beatkeeper_api_requests_in_flight');
  await waitFor(async () => (await open()) === holds.length, { what: 'the calls are held' });
  expect((await api.manage.call('listMonitors')).status).toBe(200);
  expect(answered).toBe(0);
  await fetch(`${api.url}${new URL(body.publishUrl ?? '').pathname}`);
  for (const state of await Promise.all(holds)) expect(state).toBe('accepted');
});

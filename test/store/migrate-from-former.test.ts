// A database that the version before this one has filled: what users have reads the same after the upgrade, and both versions
// work on it, in turns and at once. The tests run in this order: each one starts from the state that the test before it left.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiClient } from '../support/api-client.ts';
import { OPERATIONS, type Operation } from '../support/filled-project.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  etagOf,
  FILLED_INCIDENTS,
  type Filled,
  farCron,
  fill,
  LIVING,
  listIncidents,
  patchMonitor,
  sendBeat,
} from './fill-former.ts';
import { type FormerFixture, openFormerFixture, type Running } from './former-fixture.ts';

let fixture: FormerFixture;
let filled: Filled;
let running: Running;
/** What the version that ran before answered. */
let before: Map<string, unknown>;

beforeAll(async () => {
  fixture = await openFormerFixture();
});
afterAll(() => fixture?.close());

/** Their answers are about the moment of the call: cursors, checkpoints, and the version of the API. */
const OF_THE_MOMENT = new Set(['getStatusFeed', 'exportOrganization', 'getOpenApi']);
const [since, until] = [-1, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString());
const QUERIES: Record<string, Record<string, unknown>> = {
  readSeries: { measurement: 'rows', since, until },
};

/** The answers of all operations that read, about everything that was made. */
async function readAll(client: ApiClient): Promise<Map<string, unknown>> {
  const answers = new Map<string, unknown>();
  for (const operation of OPERATIONS.filter(isRead))
    for (const params of filled.things.filter((thing) => namesOf(thing) === namesOf(paramsOf(operation)))) {
      const query = QUERIES[operation.operationId];
      const { body } = await client.expectSuccess(operation.operationId, { params, query });
      // An explanation is of a moment.
      const { at: _, ...answer } = body as { at?: string };
      answers.set(`${operation.operationId} ${Object.values(params).join(' ')}`, answer);
    }
  return answers;
}

const isRead = ({ method, operationId }: Operation) => method === 'GET' && !OF_THE_MOMENT.has(operationId);
const paramsOf = ({ params }: Operation) => params?.shape ?? {};
const namesOf = (thing: object) => Object.keys(thing).sort().join();

/** Fields that a version does not know are absent in it, and nothing else differs. */
function expectSame(full: Map<string, unknown>, known: Map<string, unknown>): void {
  expect([...full.keys()]).toEqual([...known.keys()]);
  for (const [what, answer] of known) expect(full.get(what), what).toMatchObject(answer as object);
}

/** A beat of each living job by each api, and of one that was silent until now. */
async function beatAll(apis: readonly Running[]): Promise<void> {
  for (const one of apis) for (const id of LIVING) await sendBeat(one, filled, id, MEASURED);
}
const MEASURED = { body: { measurements: { rows: 20, seconds: 3 } } };

/** A job beats for the last time, and is found. */
async function findSilent(one: Running, id: string): Promise<void> {
  await sendBeat(one, filled, id);
  const isFound = async () => (await listIncidents(one.owner)).includes(`${id} missed_deadline open`);
  await waitFor(isFound, { what: `${id} is found` });
}

async function replace(version: 'former' | 'present'): Promise<void> {
  await running.stop();
  expect(await fixture.migrate(version)).toMatchObject({ code: 0, stderr: '' });
  running = await fixture.start(version);
}

it('the version before fills a database', async () => {
  expect(await fixture.migrate('former')).toMatchObject({ code: 0, stderr: '' });
  running = await fixture.start('former');
  filled = await fill(running, fixture.receiver.url);
  before = await readAll(running.owner);
  expect(before.size).toBeGreaterThan(100);
});

it('after the migrations every operation reads the same as before', async () => {
  await replace('present');
  expectSame(await readAll(running.owner), before);
});

it('beats go on: incidents recover, and a job that falls silent is found', async () => {
  await beatAll([running]);
  await findSilent(running, 'latePresent');
  expect(await listIncidents(running.owner)).toEqual(
    ['latePresent missed_deadline open', ...FILLED_INCIDENTS].map(recovered).sort(),
  );
});

/** What a success of each living job ends. */
const recovered = (incident: string) =>
  incident.startsWith('late') ? incident : incident.replace(/ open$/, ' recovered');

const SCHEDULES = [{ cron: farCron('0 3'), timeZone: 'UTC', durationSeconds: 3_600, reason: 'Restarts' }];

it('after a rollback every operation of the version before reads what the newer one has written', async () => {
  await patchMonitor(running.owner, 'cron', { maintenanceSchedules: SCHEDULES });
  before = await readAll(running.owner);
  await replace('former');
  expectSame(before, await readAll(running.owner));
});

it('the version before works on the newer schema', async () => {
  await beatAll([running]);
  await sendBeat(running, filled, 'failed', { suffix: '/fail' });
  await sendBeat(running, filled, 'ruled', { body: { measurements: { rows: 5 } } });
  await findSilent(running, 'lateAfterRollback');
  expect(await listIncidents(running.owner)).toEqual(expect.arrayContaining(NEW_INCIDENTS));
  await patchMonitor(running.owner, 'cron', { description: 'By the version before', graceSeconds: 900 });
  const { owner } = running;
  const body = { monitorId: 'made', name: 'Made after a rollback', intervalSeconds: 86_400 };
  await owner.expectSuccess('createMonitor', { body });
  const ifMatch = await etagOf(owner, 'archived');
  await owner.expectSuccess('deleteMonitor', { params: { monitorId: 'archived' }, ifMatch });
});
const NEW_INCIDENTS = [
  'failed reported_failure open',
  'lateAfterRollback missed_deadline open',
  'ruled rule_violation open',
];

it('both versions take beats of the same jobs at once', async () => {
  const both = [running, await fixture.start('present')] as const;
  for (let round = 0; round < 5; round += 1) await Promise.all(both.map((one) => beatAll([one])));
  await both[1].stop();
});

it('upgraded again, each answered beat is there, no living job was told as dead, and no field is lost', async () => {
  await replace('present');
  const { owner } = running;
  await beatAll([running]);
  for (const [monitorId, count] of filled.beats) {
    if (monitorId === 'archived') continue;
    const { body } = await owner.expectSuccess('listObservations', {
      params: { monitorId },
      query: { limit: 100 },
    });
    const sequences = body.items.map(({ sequence }) => sequence);
    expect(sequences, monitorId).toEqual(Array.from({ length: count }, (_, index) => count - index));
  }
  const silent = ['lateFormer', 'latePresent', 'lateAfterRollback'].map((id) => `${id} missed_deadline open`);
  const ended = ['failed reported_failure', 'recovered reported_failure', 'ruled rule_violation'];
  const incidents = await listIncidents(owner);
  expect([...new Set(incidents)]).toEqual([...silent, ...ended.map((one) => `${one} recovered`)].sort());
  const { body } = await owner.expectSuccess('getMonitor', { params: { monitorId: 'cron' } });
  expect(body).toMatchObject({
    description: 'By the version before',
    graceSeconds: 900,
    maintenanceSchedules: SCHEDULES,
  });
});

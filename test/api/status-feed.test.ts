// The status feed over HTTP: every monitor first, then each change once, and none is skipped.
// Holds: getStatusFeed.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { touchLiveSql } from '../../src/store/monitors/live.ts';
import { deleteOldChanges } from '../../src/store/monitors/live-changes.ts';
import { ofProject } from '../../src/store/postgres/engine.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { seedMonitors } from '../support/seed.ts';
import { suspendTimers } from '../support/suspend-timers.ts';

let api: ApiFixture;
/** A project of its own for each test. */
let client: ApiClient;
let project: { projectId: string; organizationId: string };
/** The operator, in no project: it sees all of them. */
let operator: ApiClient;
let count = 0;

beforeAll(async () => {
  api = await openApiFixture();
  operator = createApiClient({ url: api.url, token: api.tokens.operator });
});
afterAll(async () => {
  await api?.close();
});
beforeEach(async () => {
  count += 1;
  const name = `feed ${count}`;
  const { body } = await api.owner.expectSuccess('createProject', { body: { name } });
  project = { projectId: body.projectId, organizationId: api.organizationId };
  client = createApiClient({ url: api.url, token: api.tokens.member, project: name });
});

const make = async (monitorId: string) =>
  (
    await client.expectSuccess('createMonitor', {
      body: { monitorId, name: monitorId, intervalSeconds: 300 },
    })
  ).body;

async function read(cursor?: string, query: Record<string, unknown> = {}, from: ApiClient = client) {
  const { body } = await from.expectSuccess('getStatusFeed', { query: { limit: 200, ...query, cursor } });
  const { items, nextCursor: next, hasMore } = body;
  return { ids: items.map((item) => item.monitorId), items, next, hasMore };
}

/** Reads until nothing is left. What came during a listing is after it. */
async function drain(cursor?: string, query: Record<string, unknown> = {}, from: ApiClient = client) {
  const ids: string[] = [];
  const keys = new Set<string>();
  let next = cursor;
  for (;;) {
    const page = await read(next, query, from);
    ids.push(...page.ids);
    for (const item of page.items) keys.add(`${item.projectId}/${item.monitorId}`);
    next = page.next;
    if (page.ids.length === 0 && !page.hasMore) return { ids, keys, next };
  }
}

const beat = async (publishUrl: string | undefined) =>
  await fetch(`${api.url}${new URL(publishUrl ?? '').pathname}`, { method: 'POST' });

/** A transaction that has changed monitors and has not committed yet. */
async function openChange(monitorIds: string[]) {
  const tx = await api.pool.connect();
  await tx.query('begin');
  await tx.query(
    `with named as (select project_id, monitor_key from monitors where project_id = $1 and monitor_id = any($2)),
     ${touchLiveSql('named', ofProject('l', '$1'))} select from touched`,
    [project.projectId, monitorIds],
  );
  return {
    async commit() {
      await tx.query('commit');
      tx.release();
    },
  };
}

describe('from nothing', () => {
  it('a first call shows every monitor with its state, and has a cursor also without monitors', async () => {
    const empty = await read();
    expect(empty.ids).toEqual([]);
    const made = await make('one');
    await beat(made.publishUrl);
    const { items } = await read();
    expect(items).toMatchObject([
      {
        monitorId: 'one',
        projectId: project.projectId,
        projectName: `feed ${count}`,
        lifecycle: 'active',
        configurationVersion: 1,
        status: { health: 'up', lastSequence: 1 },
      },
    ]);
    expect((await read(empty.next)).ids).toEqual(['one']);
    const { publishBaseUrl } = (await client.expectSuccess('getStatusFeed')).body;
    expect(made.publishUrl).toMatch(new RegExp(`^${publishBaseUrl}/ping/[0-9a-f-]{36}$`));
  });

  it('every page of a listing but the last says that more follows', async () => {
    await seedMonitors(api.pool, project, 5);
    const pages = [await read(undefined, { limit: 2 })];
    while (pages.at(-1)?.hasMore) pages.push(await read(pages.at(-1)?.next, { limit: 2 }));
    expect(pages.map(({ ids }) => ids.length)).toEqual([2, 2, 1]);
    expect(await read(pages.at(-1)?.next)).toMatchObject({ ids: [], hasMore: false });
  });

  it('a first listing in pages misses no change that happens meanwhile', async () => {
    const seeded = await seedMonitors(api.pool, project, 25);
    const first = await read(undefined, { limit: 10 });
    expect(first.ids).toHaveLength(10);
    // Changed: a monitor that was shown. New: one in the part that was read. Deleted: one in the part to come.
    const seen = first.ids[3] ?? '';
    await (await openChange([seen])).commit();
    await make('newcomer');
    const unseen = seeded.find((monitor) => !first.ids.includes(monitor.monitorId))?.monitorId ?? '';
    await client.expectSuccess('deleteMonitor', {
      params: { monitorId: unseen },
      ifMatch: '"configuration-1"',
    });
    const rest = await drain(first.next, { limit: 10 });
    const all = new Set([...first.ids, ...rest.ids]);
    expect(all.size).toBe(25);
    expect(all.has('newcomer')).toBe(true);
    expect(rest.ids).toContain(seen);
    expect((await read(rest.next)).ids).toEqual([]);
  });
});

describe('changes', () => {
  it('each change is shown once, with a growing changeSequence', async () => {
    const [a] = [await make('a'), await make('b')];
    const start = await drain();
    await beat(a?.publishUrl);
    const first = await read(start.next);
    expect(first.ids).toEqual(['a']);
    expect((await read(first.next)).ids).toEqual([]);
    await client.expectSuccess('changeMonitorLifecycle', {
      params: { monitorId: 'a' },
      ifMatch: '"configuration-1"',
      body: { action: 'pause' },
    });
    const second = await read(first.next);
    expect(second.items).toMatchObject([{ monitorId: 'a', lifecycle: 'paused', configurationVersion: 2 }]);
    expect(second.items[0]?.changeSequence).toBeGreaterThan(first.items[0]?.changeSequence ?? 0);
  });

  it('many changes come in pages', async () => {
    const seeded = await seedMonitors(api.pool, project, 30);
    const start = await drain();
    await (await openChange(seeded.map((monitor) => monitor.monitorId))).commit();
    const { ids } = await drain(start.next, { limit: 7 });
    expect(ids.sort()).toEqual(seeded.map((monitor) => monitor.monitorId).sort());
  });

  it('a transaction that commits late is neither skipped nor waited for', async () => {
    const [, b] = [await make('late'), await make('soon')];
    const start = await drain();
    const late = await openChange(['late']);
    await beat(b.publishUrl);
    const first = await read(start.next);
    expect(first.ids).toEqual(['soon']);
    await beat(b.publishUrl);
    const second = await read(first.next);
    expect(second.ids).toEqual(['soon']);
    expect((await read(second.next)).ids).toEqual([]);
    await late.commit();
    const third = await read(second.next);
    expect(third.ids).toEqual(['late']);
    expect((await read(third.next)).ids).toEqual([]);
  });

  it('a transaction that commits late during a first listing is not skipped', async () => {
    await seedMonitors(api.pool, project, 6);
    await make('late');
    const late = await openChange(['late']);
    const first = await read(undefined, { limit: 4 });
    const listed = await read(first.next, { limit: 4 });
    await late.commit();
    expect((await read(listed.next)).ids).toEqual(['late']);
  });

  it('the changes of many concurrent writers are all shown', async () => {
    const seeded = await seedMonitors(api.pool, project, 12);
    let cursor = (await drain()).next;
    const newest = new Map<string, number>();
    let isDone = false;
    const writers = seeded.map(async ({ address }) => {
      for (let round = 0; round < 5; round += 1) {
        await fetch(`${api.url}/ping/${address}`, { method: 'POST' });
      }
    });
    const reader = async () => {
      for (;;) {
        const wasDone = isDone;
        const page = await read(cursor);
        for (const item of page.items) newest.set(item.monitorId, item.status.lastSequence ?? 0);
        cursor = page.next;
        if (wasDone && page.ids.length === 0) return;
      }
    };
    // Meanwhile old changes are deleted as if each of these runs were a minute later.
    const deleting = async () => {
      while (!isDone) {
        await api.pool.query("update live_changes_floor set next_at = next_at - interval '2 minutes'");
        await deleteOldChanges(api.pool, 1_000);
      }
    };
    const reading = [reader(), deleting()];
    await Promise.all(writers);
    isDone = true;
    await Promise.all(reading);
    expect([...newest.values()]).toEqual(Array(12).fill(5));
  });
});

describe('held open', () => {
  it('a held call answers after a change, and empty when its time is over', async () => {
    const made = await make('held');
    const start = await drain();
    const resumeTimers = suspendTimers(30_000);
    const waiting = read(start.next, { waitSeconds: 30 });
    await beat(made.publishUrl);
    const page = await waiting.finally(resumeTimers);
    expect(page.ids).toEqual(['held']);
    const silent = await read(page.next, { waitSeconds: 1 });
    expect(silent.ids).toEqual([]);
    expect((await read(silent.next)).ids).toEqual([]);
  });

  it('a change wakes all calls that wait for its project, and no others', async () => {
    const made = await make('shared');
    const start = await drain();
    const all = await drain(undefined, {}, operator);
    const foreign = await api.manage.expectSuccess('createMonitor', { body: { name: 'elsewhere' } });
    const [own, everything] = [
      read(start.next, { waitSeconds: 30 }),
      read(all.next, { waitSeconds: 30 }, operator),
    ];
    expect((await everything).ids).toEqual([foreign.body.monitorId]);
    await beat(made.publishUrl);
    expect((await own).ids).toEqual(['shared']);
  });

  it('a held call with a cursor that was cut, which shows changes again, waits a second before it does', async () => {
    await make('again');
    const { next } = await drain();
    const [form, history, snapshot = ''] = next.split('.');
    // The beginning of the snapshot: whatever committed since is new to it.
    const cut = [form, history, `${snapshot.split('~')[0]}~0~`].join('.');
    await (await openChange(['again'])).commit();
    expect((await read(cut)).ids).toEqual(['again']);
    const startedAt = performance.now();
    expect((await read(cut, { waitSeconds: 30 })).ids).toEqual(['again']);
    // A timer may end a millisecond early.
    expect(performance.now() - startedAt).toBeGreaterThan(990);
  });

  it('a first call and a call inside a listing are not held', async () => {
    await seedMonitors(api.pool, project, 3);
    const resumeTimers = suspendTimers(30_000);
    const readAll = async () => {
      const first = await read(undefined, { limit: 2, waitSeconds: 30 });
      return [first, await read(first.next, { limit: 2, waitSeconds: 30 })];
    };
    const pages = await readAll().finally(resumeTimers);
    expect(pages.flatMap(({ ids }) => ids)).toHaveLength(3);
  });
});

describe('who sees what', () => {
  it('a credential and a session see their project, the operator its whole organization', async () => {
    await make('mine');
    const elsewhere = await api.manage.expectSuccess('createMonitor', { body: { name: 'elsewhere' } });
    expect((await drain()).ids).toEqual(['mine']);
    expect((await drain(undefined, {}, api.read)).ids).toContain(elsewhere.body.monitorId);
    const all = await drain(undefined, { limit: 5 }, operator);
    expect(all.ids).toEqual(expect.arrayContaining(['mine', elsewhere.body.monitorId]));
    expect(all.keys.size).toBe(all.ids.length);
    expect((await drain(undefined, {}, api.other.manage)).ids).toEqual([]);
  });

  it('a session without Service-Project is refused', async () => {
    const nowhere = createApiClient({ url: api.url, token: api.tokens.owner });
    const { problem } = await nowhere.call('getStatusFeed');
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'Service-Project' }] });
  });

  it("a cursor of another organization shows the caller's own rows only", async () => {
    await make('mine');
    const { next } = await drain();
    await (await openChange(['mine'])).commit();
    expect((await read(next, {}, api.other.manage)).ids).toEqual([]);
  });
});

describe('a database that was put back', () => {
  it('a cursor of another history starts again with every monitor', async () => {
    await make('kept');
    const { next } = await drain();
    const [form, history = '', snapshot] = next.split('.');
    const other = history.replaceAll(/./g, (digit) => (digit === '0' ? '1' : '0'));
    expect((await read([form, other, snapshot].join('.'))).ids).toEqual(['kept']);
    const future = 'zzzzzzz~0';
    expect((await read([form, history, future].join('.'))).ids).toEqual(['kept']);
  });

  it('rows with ids of another cluster are not repeated, and their next change is shown', async () => {
    const made = await make('restored');
    await api.pool.query("update monitor_live set changed_xid = '9000000000000' where project_id = $1", [
      project.projectId,
    ]);
    const start = await read();
    expect(start.ids).toEqual(['restored']);
    expect((await read(start.next)).ids).toEqual([]);
    await beat(made.publishUrl);
    expect((await read(start.next)).ids).toEqual(['restored']);
  });

  it.each(['x', 'f1', 'f1.0123456789abcdef.a~c~b', 'f1.0123456789abcdef.1z141z4~0'])(
    'the status feed refuses the cursor %s',
    async (cursor) => {
      const { problem } = await client.call('getStatusFeed', { query: { cursor } });
      expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'cursor' }] });
    },
  );
});

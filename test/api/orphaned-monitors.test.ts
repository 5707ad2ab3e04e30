// Monitors whose objects are gone: how the operator reports them, and where they are seen (docs/contract/monitors.md).
// Holds: reportMonitorOrigins.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { madeAgain, newOrigin, originCalls } from './origin-fixture.ts';

let api: ApiFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openApiFixture();
  calls = originCalls(api);
});
afterAll(async () => {
  await api?.close();
});

const listOrphans = async () => {
  const { body } = await api.read.expectSuccess('listMonitors', {
    query: { origin: 'orphaned', limit: 200 },
  });
  return new Map(body.items.map((item) => [item.monitorId, item.origin?.orphanedAt]));
};

describe('a monitor whose object is gone', () => {
  it('is listed as orphaned until the object is seen again, and keeps its first time', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    expect(await calls.report({ orphaned: [monitorId] })).toEqual({ orphaned: 1, seen: 0 });
    const { orphanedAt } = (await calls.read(monitorId)).origin ?? {};
    expect(Math.abs(Date.parse(orphanedAt ?? '') - Date.now())).toBeLessThan(600_000);
    expect(await calls.report({ orphaned: [monitorId] })).toEqual({ orphaned: 0, seen: 0 });
    expect((await listOrphans()).get(monitorId)).toBe(orphanedAt);
    expect(await calls.report({ seen: [monitorId] })).toEqual({ orphaned: 0, seen: 1 });
    expect((await listOrphans()).has(monitorId)).toBe(false);
    // What is seen of the cluster is no change of the configuration.
    expect((await calls.read(monitorId)).configurationVersion).toBe(1);
  });

  it('is a change for the status feed, once', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    const { body: before } = await api.operator.expectSuccess('getStatusFeed');
    await calls.report({ orphaned: [monitorId] });
    const after = await api.operator.expectSuccess('getStatusFeed', { query: { cursor: before.nextCursor } });
    expect(after.body.items.map((item) => item.monitorId)).toEqual([monitorId]);
    expect(after.body.items[0]?.origin?.orphanedAt).toBeDefined();
    await calls.report({ orphaned: [monitorId] });
    const last = await api.operator.expectSuccess('getStatusFeed', {
      query: { cursor: after.body.nextCursor },
    });
    expect(last.body.items).toEqual([]);
  });

  it('that was archived meanwhile, as a deleted object ends it, is not orphaned by a late report', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    await calls.changeLifecycle(monitorId, 'archive');
    expect(await calls.report({ orphaned: [monitorId] })).toEqual({ orphaned: 0, seen: 0 });
    expect((await calls.read(monitorId)).origin?.orphanedAt).toBeUndefined();
  });

  it('is in no list of orphans while it is archived', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    await calls.report({ orphaned: [monitorId] });
    await calls.changeLifecycle(monitorId, 'archive');
    expect((await listOrphans()).has(monitorId)).toBe(false);
    await calls.changeLifecycle(monitorId, 'restore');
    expect((await listOrphans()).has(monitorId)).toBe(true);
  });

  it('belongs to whoever restores it, and to no object any more; the operator restores it for its object', async () => {
    const [theirs, itsOwn, seen] = [newOrigin(), newOrigin(), newOrigin()];
    const made = await Promise.all([theirs, itsOwn, seen].map((origin) => calls.create({ origin })));
    const [one = '', two = '', three = ''] = made.map(({ monitorId }) => monitorId);
    await calls.report({ orphaned: [one, two] });
    for (const id of [one, two, three]) await calls.changeLifecycle(id, 'archive');
    await calls.changeLifecycle(two, 'restore');
    expect((await calls.read(two)).origin).toMatchObject({ name: itsOwn.name });
    for (const monitorId of [one, three]) {
      const { etag: ifMatch } = await api.member.expectSuccess('getMonitor', { params: { monitorId } });
      const body = { action: 'restore' };
      await api.member.expectSuccess('changeMonitorLifecycle', { params: { monitorId }, ifMatch, body });
    }
    expect((await calls.read(one)).origin).toBeUndefined();
    expect((await listOrphans()).has(one)).toBe(false);
    // Its object may come back: only an orphan is given up.
    expect((await calls.read(three)).origin).toMatchObject({ name: seen.name });
    // The object, made again, gets a monitor of its own.
    expect((await calls.create({ origin: madeAgain(theirs) })).monitorId).not.toBe(one);
  });

  it('is orphaned no more once an object takes its origin, be it the same or one that was made again', async () => {
    const [same, other] = [newOrigin(), newOrigin()];
    const ids = [await calls.create({ origin: same }), await calls.create({ origin: other })].map(
      ({ monitorId }) => monitorId,
    );
    await calls.report({ orphaned: ids });
    const [one = '', two = ''] = ids;
    const { etag, body } = await calls.setOrigin(one, same);
    expect([etag, body.origin]).toEqual(['"configuration-1"', same]);
    const again = madeAgain(other);
    expect((await calls.setOrigin(two, again)).body.origin).toEqual(again);
    expect([...(await listOrphans()).keys()]).not.toEqual(expect.arrayContaining([one]));
    expect((await listOrphans()).has(two)).toBe(false);
  });

  it('keeps its mark through other changes of the monitor', async () => {
    const { monitorId } = await calls.create({ origin: newOrigin() });
    await calls.report({ orphaned: [monitorId] });
    await calls.changeLifecycle(monitorId, 'pause');
    expect((await listOrphans()).has(monitorId)).toBe(true);
  });
});

describe('a report', () => {
  it('passes over monitors without an origin, of another project, and such that do not exist', async () => {
    const { monitorId } = await calls.create();
    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const elsewhere = api.operator.as(api.tokens.operator, project.projectId);
    const other = await calls.create({ origin: newOrigin() }, elsewhere);
    const orphaned = [monitorId, other.monitorId, 'nobody'];
    expect(await calls.report({ orphaned })).toEqual({ orphaned: 0, seen: 0 });
    const untouched = await elsewhere.expectSuccess('getMonitor', { params: { monitorId: other.monitorId } });
    expect(untouched.body.origin?.orphanedAt).toBeUndefined();
  });

  it('of a hundred monitors with the longest ids fits into one call', async () => {
    const ids = Array.from({ length: 100 }, (_, index) => String(index).padStart(128, 'x'));
    expect(await calls.report({ orphaned: ids.slice(0, 50), seen: ids.slice(50) })).toEqual({
      orphaned: 0,
      seen: 0,
    });
  });

  it.each([
    ['names a monitor twice', { orphaned: ['a', 'a'] }, 'orphaned'],
    ['names a monitor as orphaned and as seen', { orphaned: ['a'], seen: ['b', 'a'] }, 'seen'],
    ['names too many', { orphaned: Array.from({ length: 101 }, (_, index) => `m${index}`) }, 'orphaned'],
    [
      'names too many together',
      { orphaned: ['a', 'b'], seen: Array.from({ length: 99 }, (_, index) => `m${index}`) },
      'seen',
    ],
    ['names what is no id', { seen: ['a b'] }, 'seen.0'],
  ])('that %s is refused with the path of the list', async (_, body, path) => {
    const { problem } = await api.operator.call('reportMonitorOrigins', { body });
    expect(problem).toMatchObject({ status: 400, code: 'service.validation_failed' });
    expect(problem?.fieldErrors?.map((fault) => fault.path)).toContain(path);
  });
});

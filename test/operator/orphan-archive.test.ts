// Which orphans are archived first, and what becomes of those that the API refuses to archive.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { OrphanArchive } from '../../src/operator/orphans/orphan-archive.ts';
import { type OrphanFixture, openOrphanFixture } from './orphan-fixture.ts';

let fixture: OrphanFixture;
beforeAll(async () => {
  fixture = await openOrphanFixture();
});
afterAll(() => fixture?.close());

it('a hundred orphans that the API refuses to archive hold up no younger one, and each is warned of once', async () => {
  const { api, proxy, client, calls, log, lookFor, signal } = fixture;
  const names = await Promise.all(Array.from({ length: 101 }, () => fixture.make()));
  for (const { name } of names) fixture.sights.set(name, 'gone');
  const youngest = names.at(-1)?.monitorId ?? '';
  const others = names.map(({ monitorId }) => monitorId).filter((id) => id !== youngest);
  await calls.report({ orphaned: others });
  await calls.report({ orphaned: [youngest] });
  // All are due by the clock of the API, which tells whole seconds.
  await api.pool.query(
    `update monitors set orphaned_at = orphaned_at - case when monitor_id = $1 then interval '1 hour' else interval '1 day' end`,
    [youngest],
  );
  const tried: string[] = [];
  proxy.answer = ({ method, path }) => {
    const [, id = ''] = method === 'POST' ? (/monitors\/([^/]+)\/lifecycle/.exec(path) ?? []) : [];
    if (!others.includes(id)) return undefined;
    tried.push(id);
    const body = JSON.stringify({ code: 'service.validation_failed', detail: 'No.', status: 400 });
    return { status: 400, headers: { 'content-type': 'application/problem+json' }, body };
  };
  await fixture.list();
  const { orphans } = await fixture.watch.settle(signal);
  const archive = new OrphanArchive({ api: client, log, lookFor, afterMs: 0 });
  const settle = () => archive.settle(orphans, orphans.length * 3, signal);
  fixture.warnings.length = 0;
  await settle();
  expect(new Set(tried)).toEqual(new Set(others));
  await settle();
  expect((await calls.read(youngest)).lifecycle).toBe('archived');
  await settle();
  const refusals = fixture.warnings.filter((line) => line.startsWith('The API does not archive'));
  expect(refusals).toHaveLength(100);
  // Turns: each was tried as often as any other.
  const counts = Map.groupBy(tried, (id) => id);
  expect([...counts.values()].map(({ length }) => length).every((count) => count >= 2)).toBe(true);
});

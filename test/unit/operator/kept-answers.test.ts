// What the operator keeps of the API's answers: never the older of two, and nothing of deleted objects.
import { afterEach, describe, expect, it } from 'vitest';
import type { MonitorStatus } from '../../../src/contract/resources/monitor.ts';
import type { OpenIncident } from '../../../src/operator/kinds/monitor/monitor-status.ts';
import {
  type CachedMonitorStatus,
  MonitorStatusCache,
} from '../../../src/operator/known/monitor-status-cache.ts';
import { ProjectDirectory } from '../../../src/operator/known/project-directory.ts';
import { listStatusFeed } from '../../../src/operator/known/status-feed-follower.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type FakeApi, startFakeApi } from './fake-api.ts';
import { incident, liveStatus } from './resources.ts';

let api: FakeApi | undefined;
afterEach(() => api?.close());

const live = (health: 'up' | 'down', atMs: number): CachedMonitorStatus => ({
  ...{ lifecycle: 'active', configurationVersion: 1, atMs },
  status: liveStatus({ health }),
});

describe('the status cache', () => {
  it('a page of the feed that was requested before a newer status arrived does not replace it', async () => {
    const cache = new MonitorStatusCache();
    const late = Promise.withResolvers<void>();
    const { lifecycle, configurationVersion, status } = live('up', 0);
    const item = { monitorId: 'm', projectId: 'p', lifecycle, configurationVersion, status };
    const { client, requests } = await start(async () => {
      await late.promise;
      return { status: 200, body: { items: [item], nextCursor: 'c' } };
    });
    const onItem = (_item: unknown, atMs: number) => void cache.put('p', 'm', live('up', atMs));
    const listing = listStatusFeed(client, onItem, new AbortController().signal);
    await waitFor(() => requests.length === 1, { what: 'a request for the page' });
    cache.put('p', 'm', live('down', performance.now()));
    late.resolve();
    await listing;
    expect(cache.get('p', 'm')?.status.health).toBe('down');
  });

  it('a status that is read keeps the sentence that the feed has for it, whichever came first', () => {
    const cache = new MonitorStatusCache();
    cache.put('p', 'm', { ...live('down', 2), because: 'Since noon.' });
    expect(cache.put('p', 'm', live('down', 1)).because).toBe('Since noon.');
    expect(cache.put('p', 'm', live('down', 3)).because).toBe('Since noon.');
    expect(cache.get('p', 'm')?.because).toBe('Since noon.');
    expect(cache.put('p', 'm', { ...live('down', 4), configurationVersion: 2 }).because).toBeUndefined();
    cache.put('p', 'n', { ...live('down', 1), because: 'Since noon.' });
    expect(cache.put('p', 'n', live('up', 2)).because).toBeUndefined();
  });

  it.each<[MonitorStatus['health'], OpenIncident['kind'] | undefined, boolean]>([
    ['recovering', 'missed_deadline', true],
    ['down', 'reported_failure', true],
    ['paused', undefined, true],
    ['archived', undefined, true],
    ['maintenance', undefined, true],
    // The sentence names a beat.
    ['down', 'missed_deadline', false],
    ['up', undefined, false],
    ['up', 'rule_violation', false],
    ['late', undefined, false],
    ['waiting', undefined, false],
  ])(
    'a status of one that is %s with %s, read after a further beat, keeps its sentence: %s',
    (health, kind, isKept) => {
      const cache = new MonitorStatusCache();
      const openIncidents = kind ? [incident({ kind })] : [];
      const read = (lastBeatAt: string, more: Partial<MonitorStatus> = {}): CachedMonitorStatus => ({
        ...live('up', 2),
        status: liveStatus({ health, openIncidents, lastBeatAt, ...more }),
      });
      const told = { ...read('2026-03-01T10:00:00Z'), because: 'Since noon.' };
      cache.put('p', 'm', told);
      const kept = cache.put(
        'p',
        'm',
        read('2026-03-01T10:05:00Z', { nextDeadlineAt: '2026-03-01T11:05:00Z' }),
      );
      expect(kept.because).toBe(isKept ? 'Since noon.' : undefined);
      // Another incident, or another state: the feed has an item to come.
      cache.put('p', 'm', told);
      const other = [...openIncidents, incident({ incidentId: 'inc_2' })];
      expect(
        cache.put('p', 'm', read('2026-03-01T10:05:00Z', { openIncidents: other })).because,
      ).toBeUndefined();
    },
  );

  it('the status of a monitor without an object is dropped', () => {
    const cache = new MonitorStatusCache();
    for (const [project, monitor] of [
      ['p', 'kept'],
      ['p', 'gone'],
      ['former', 'kept'],
    ] as const)
      cache.put(project, monitor, live('up', 1));
    cache.retain((projectId, monitorId) => projectId === 'p' && monitorId === 'kept');
    expect(cache.size).toBe(1);
    expect(cache.get('p', 'kept')).toBeDefined();
  });
});

describe('the directory of projects', () => {
  it('a project that another process created during a list is found', async () => {
    const names = new Set<string>();
    const [listed, refused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let lists = 0;
    const { client, ended } = await start(async (request, sent) => {
      if (request === 'POST /v1/projects') {
        const { name } = JSON.parse(sent);
        if (name === 'second') await refused.promise;
        names.add(name);
        return { status: 409, body: { code: 'service.conflict', detail: 'It is there.' } };
      }
      const items = [...names].map((name) => ({ name, formerNames: [], projectId: `id of ${name}` }));
      lists += 1;
      if (lists === 2) await listed.promise;
      return { status: 200, body: { items } };
    });
    const directory = new ProjectDirectory(client);
    const found = Promise.all([directory.ensure('first'), directory.ensure('second')]);
    await waitFor(() => lists === 2, { what: 'the list after the first refusal' });
    refused.resolve();
    const refusals = () => ended.filter((operation) => operation === 'createProject').length;
    await waitFor(() => refusals() === 2, { what: 'the second refusal' });
    listed.resolve();
    expect(await found).toEqual(['id of first', 'id of second']);
  });
});

async function start(answer: Parameters<typeof startFakeApi>[0]): Promise<FakeApi> {
  api = await startFakeApi(answer);
  return api;
}

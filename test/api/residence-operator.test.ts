// The operator's calls while the database of a jurisdiction is away: monitors of the others are found, made and reported.
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { RestClient } from '../../src/client/rest-client.ts';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { ExternalMonitor } from '../../src/operator/kinds/monitor/external-monitor.ts';
import { listStatusFeed } from '../../src/operator/known/status-feed-follower.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
let client: RestClient;
beforeAll(async () => {
  api = await openResidenceFixture();
  const tokenFile = join(await mkdtemp(join(tmpdir(), 'residence-')), 'token');
  await writeFile(tokenFile, api.tokens.operator);
  client = new RestClient({ apiUrl: api.url, tokenFile });
});
afterAll(async () => {
  await client.close();
  await api.close();
});
beforeEach(() => api.restore());

const external = (id: string) => new ExternalMonitor(client, { projectId: api.projectId, id, uid: id });

/** A monitor of an object of the cluster. */
async function make(id: string, jurisdiction?: Jurisdiction) {
  const origin = { kind: 'Monitor', namespace: 'shop', name: id, uid: id };
  const body = { monitorId: id, name: id, intervalSeconds: 3600, jurisdiction, origin };
  await api.operator.expectSuccess('createMonitor', { body });
  return id;
}

it('a monitor is read in its jurisdiction while another one is away, and a new one is known to be new', async () => {
  await make('here');
  await make('there', 'eu');
  await api.proxies.eu.refuse();
  expect((await external('here').read())?.monitorId).toBe('here');
  expect(await external('new').read()).toBeUndefined();
  expect(await external('new').read('us')).toBeUndefined();
  await expect(external('there').read('eu')).rejects.toMatchObject({ status: 503, jurisdiction: 'eu' });
  await api.restore();
  expect((await external('there').read())?.jurisdiction).toBe('eu');
});

it('a report of origins reaches all databases, and is repeated while one is away', async () => {
  const orphaned = [await make('lost-here', 'us'), await make('lost-there', 'eu')];
  const report = () => api.operator.call('reportMonitorOrigins', { body: { orphaned, seen: [] } });
  const orphans = async (jurisdiction: Jurisdiction) => {
    const query = { origin: 'orphaned', jurisdiction };
    return (await api.operator.expectSuccess('listMonitors', { query })).body.items.map(
      (one) => one.monitorId,
    );
  };
  await api.proxies.eu.refuse();
  expect((await report()).problem?.jurisdiction).toBe('eu');
  expect(await orphans('us')).toEqual(['lost-here']);
  await api.restore();
  expect((await report()).body).toEqual({ orphaned: 1, seen: 0 });
  expect(await orphans('eu')).toEqual(['lost-there']);
});

it('a listing says that it is not whole', async () => {
  const list = () => listStatusFeed(client, () => undefined, new AbortController().signal);
  expect(await list()).toBe(true);
  await api.proxies.eu.refuse();
  expect(await list()).toBe(false);
});

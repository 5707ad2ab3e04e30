// The operator's question whether callbacks may go where endpoints lead: by the check of a write, and without its record.
// Holds: checkDestinations.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { checkDestinations } from '../../src/service/callbacks/destination-checks.ts';
import { type DnsServer, startDnsServer } from '../delivery/dns-server.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

const PRIVATE = 'http://10.20.30.40/alerts';
const PUBLIC = '93.184.216.34';

let api: ApiFixture;
let dns: DnsServer;
/** On the same database, where the installation allows less. */
let strict: ApiClient;
/** Names that begin so get no answer. */
let silent = 'none';

beforeAll(async () => {
  dns = await startDnsServer((name, family) => {
    if (name.startsWith(silent)) return 'silence';
    return family === 4 ? [PUBLIC] : [];
  });
  const dnsServers = [dns.address];
  api = await openApiFixture({ config: { allowedPrivateDestinations: '10.0.0.0/8', dnsServers } });
  const replica = await api.startReplica({ allowedPrivateDestinations: '', dnsServers });
  const { operator: token } = api.tokens;
  strict = createApiClient({ url: replica.url, token, project: api.projectName });
});
afterAll(async () => {
  await api?.close();
  await dns?.close();
});

const create = async (url: string) =>
  (await api.manage.expectSuccess('createCallback', { body: { alias: randomUUID(), url } })).body.endpoint;
const check = async (endpointIds: string[], client = api.operator) => {
  const { body } = await client.expectSuccess('checkDestinations', { body: { endpointIds } });
  return body.items;
};
const verdicts = async (endpointIds: string[], client?: ApiClient) =>
  new Map((await check(endpointIds, client)).map(({ endpointId, verdict }) => [endpointId, verdict]));

describe('a check of destinations', () => {
  it('judges each address as a write of it would be judged now, also that of an inline binding', async () => {
    const { id } = await create(PRIVATE);
    const monitor = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'Job', callback: { kind: 'inline', url: PRIVATE } },
    });
    const { monitorId } = monitor.body;
    const bound = await api.read.expectSuccess('getMonitorBinding', { params: { monitorId } });
    const ids = [id, bound.body.target?.endpointId ?? ''];
    const accepted = ids.map((endpointId) => ({ endpointId, verdict: 'accepted' }));
    expect(new Set(await check(ids))).toEqual(new Set(accepted));
    const { problem } = await strict.call('createCallback', { body: { alias: randomUUID(), url: PRIVATE } });
    const refused = ids.map((endpointId) => ({ endpointId, verdict: 'refused', detail: problem?.detail }));
    expect(new Set(await check(ids, strict))).toEqual(new Set(refused));
  });

  it('keeps no record of the call, and changes neither the endpoint nor its history', async () => {
    const { id: endpointId } = await create(PRIVATE);
    const shown = async () => [
      (await api.pool.query('select count(*) from idempotency_records')).rows,
      (await api.read.expectSuccess('getCallback', { params: { endpointId } })).body,
      (await api.read.expectSuccess('listCallbackChanges', { params: { endpointId } })).body,
    ];
    const before = await shown();
    for (const client of [api.operator, strict]) expect(await check([endpointId], client)).toHaveLength(1);
    expect(await shown()).toEqual(before);
  });

  it('of a name that DNS resolves late waits as long as a write does', async () => {
    const { id } = await create('https://late.test/');
    // The first query of each family is lost, and the resolver asks again after this time.
    const times = { queryTimeoutMs: 3_500, timeoutMs: 60_000 };
    const lost = new Set<number>();
    const late = await startDnsServer((_name, family) => {
      if (lost.has(family)) return family === 4 ? [PUBLIC] : [];
      lost.add(family);
      return 'silence';
    });
    const resolver = createNameResolver({
      servers: [late.address],
      hostsText: '',
      searchDomains: [],
      ...times,
    });
    const { pool, secrets, projectId } = api;
    const found = await checkDestinations(
      pool,
      { secrets, destinations: { resolver, allowed: parseAllowedDestinations('') } },
      { projectId, endpointIds: [id], signal: new AbortController().signal },
    );
    expect(found).toEqual([{ endpointId: id, verdict: 'accepted' }]);
    await late.close();
  });

  it('of names that DNS is silent about is unknown, and holds back no answer about another name', async () => {
    const slow = await Promise.all(
      Array.from({ length: 35 }, (_, index) => create(`https://slow${index}.test/`)),
    );
    const good = await create('https://good.test/');
    silent = 'slow';
    const found = await verdicts([...slow, good].map(({ id }) => id));
    expect(slow.map(({ id }) => found.get(id))).toEqual(slow.map(() => 'unknown'));
    expect(found.get(good.id)).toBe('accepted');
  });

  it('passes over what is removed, of another project, or not there', async () => {
    const { id: removed } = await create(PRIVATE);
    await api.manage.expectSuccess('deleteCallback', {
      params: { endpointId: removed },
      ifMatch: '"callback-endpoint-1"',
    });
    const foreign = await api.other.manage.expectSuccess('createCallback', {
      body: { alias: randomUUID(), url: PRIVATE },
    });
    expect(await check([removed, foreign.body.endpoint.id, 'none'])).toEqual([]);
  });

  it('is for the operator alone', async () => {
    const { id } = await create(PRIVATE);
    for (const client of [api.manage, api.read, api.owner, api.member, api.viewer]) {
      const { problem } = await client.call('checkDestinations', { body: { endpointIds: [id] } });
      expect(problem).toMatchObject({ status: 403, code: 'service.permission_denied' });
    }
  });

  it('takes a hundred endpoints of the longest ids, and no more', async () => {
    const ids = (count: number) => Array.from({ length: count }, (_, index) => `${index}`.padStart(128, 'e'));
    expect(await check(ids(100))).toEqual([]);
    const { problem } = await api.operator.call('checkDestinations', { body: { endpointIds: ids(101) } });
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'endpointIds' }] });
  });
});

// A duplicate that another replica overtakes gets the answer of the first call, whatever has changed since it looked for its
// key (docs/contract/calls.md, "Idempotency").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { OperationId } from '../../src/contract/operations/operations.ts';
import { type DnsServer, startDnsServer } from '../delivery/dns-server.ts';
import { type ApiClient, type ApiRequest, createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { overtake } from '../support/overtaken-call.ts';
import { type Receiver, startReceiver, status } from '../support/receiver.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const PUBLIC = ['93.184.216.34'];
const PRIVATE = ['10.20.30.40'];
const URL_BY_NAME = 'https://receiver.example/hook';

let api: ApiFixture;
let dns: DnsServer;
let receiver: Receiver;
let proxy: TcpProxy;
/** Of the replica behind the proxy. */
let replica: ApiClient;
/** Where every name leads. */
let addresses: string[];

beforeAll(async () => {
  dns = await startDnsServer((_name, family) => (family === 4 ? addresses : []));
  const config = { dnsServers: [dns.address] };
  api = await openApiFixture({ config });
  receiver = await startReceiver(status(410));
  proxy = await TcpProxy.start(api.databaseUrl);
  const { url } = await api.startReplica({ ...config, databaseUrl: proxy.url });
  replica = createApiClient({ url, token: api.tokens.manage });
});
afterAll(async () => {
  await api?.close();
  await proxy?.close();
  await receiver?.close();
  await dns?.close();
});
beforeEach(() => {
  addresses = PUBLIC;
  receiver.requests.length = 0;
});

async function newEndpoint() {
  const body = { alias: `a-${randomUUID()}`, url: receiver.url };
  const { etag, body: made } = await api.manage.expectSuccess('createCallback', { body });
  return { params: { endpointId: made.endpoint.id }, ifMatch: etag };
}

async function newMonitor() {
  const { etag, body } = await api.manage.expectSuccess('createMonitor', { body: { name: 'Job' } });
  return { params: { monitorId: body.monitorId }, ifMatch: etag };
}

/** The status of the first call and that of its duplicate, which goes on after the first call and `then`. */
async function statuses(id: OperationId, stated: ApiRequest, then?: (etag: string) => unknown) {
  const request = { ...stated, idempotencyKey: randomUUID() };
  let first = 0;
  const duplicate = await overtake({ client: replica, proxy, id, request }, async () => {
    const answer = await api.manage.expectSuccess(id, request);
    first = answer.status;
    await then?.(answer.etag);
  });
  return [first, duplicate.status];
}

const leadNowhere = () => {
  addresses = PRIVATE;
};

it('the duplicate of a change is answered though the endpoint is removed since', async () => {
  const { params, ifMatch } = await newEndpoint();
  const change = { params, ifMatch, body: { alias: `b-${randomUUID()}` } };
  const remove = (etag: string) => api.manage.expectSuccess('deleteCallback', { params, ifMatch: etag });
  expect(await statuses('updateCallback', change, remove)).toEqual([200, 200]);
});

it('the duplicate of a test is answered though the receiver has ended the endpoint by it, and sends nothing', async () => {
  const { params } = await newEndpoint();
  expect(await statuses('testCallback', { params })).toEqual([200, 200]);
  const { body } = await api.read.expectSuccess('getCallback', { params });
  expect([body.lifecycle, receiver.requests.length]).toEqual(['disabled', 1]);
});

it('the duplicate of a write is answered though its URL leads elsewhere since', async () => {
  const alias = () => `c-${randomUUID()}`;
  const url = URL_BY_NAME;
  const callback = { kind: 'inline', url };
  const writes: [OperationId, number, ApiRequest][] = [
    ['createCallback', 201, { body: { alias: alias(), url } }],
    ['updateCallback', 200, { ...(await newEndpoint()), body: { url } }],
    ['createMonitor', 201, { body: { name: 'Job', callback } }],
    ['setMonitorBinding', 200, { ...(await newMonitor()), body: { binding: callback } }],
  ];
  for (const [id, success, request] of writes) {
    addresses = PUBLIC;
    expect([id, ...(await statuses(id, request, leadNowhere))]).toEqual([id, success, 200]);
  }
});

it('a call that is no duplicate is refused for its URL, and nothing of it is written', async () => {
  addresses = PRIVATE;
  const endpoint = await newEndpoint();
  const monitor = await newMonitor();
  const callback = { kind: 'inline', url: URL_BY_NAME };
  const writes: [OperationId, ApiRequest][] = [
    ['createCallback', { body: { alias: `d-${randomUUID()}`, url: URL_BY_NAME } }],
    ['updateCallback', { ...endpoint, body: { url: URL_BY_NAME } }],
    ['createMonitor', { body: { monitorId: `e-${randomUUID()}`, name: 'Job', callback } }],
    ['setMonitorBinding', { ...monitor, body: { binding: callback } }],
  ];
  for (const [id, request] of writes) {
    const { problem } = await replica.call(id, request);
    expect([id, problem?.code]).toEqual([id, 'service.callback_destination_rejected']);
  }
  const { endpointId } = endpoint.params;
  const { rows } = await api.pool.query(
    `select
       (select count(*)::integer from callback_endpoints where alias like 'd-%') as endpoints,
       (select count(*)::integer from monitors where monitor_id like 'e-%') as monitors,
       (select count(*)::integer from idempotency_records where status = 0) as claims,
       (select generation from callback_endpoints where endpoint_id = $1) as generation,
       (select configuration_version from monitors where monitor_id = $2) as version`,
    [endpointId, monitor.params.monitorId],
  );
  expect(rows).toEqual([{ endpoints: 0, monitors: 0, claims: 0, generation: 1, version: 1 }]);
});

it('a change that another one overtakes is refused, and nobody looks where its URL leads', async () => {
  const { params, ifMatch } = await newEndpoint();
  const request = { params, ifMatch, idempotencyKey: randomUUID(), body: { url: URL_BY_NAME } };
  const queries = dns.queries.length;
  const stale = await overtake({ client: replica, proxy, id: 'updateCallback', request }, () =>
    api.manage.expectSuccess('updateCallback', { params, ifMatch, body: { alias: `f-${randomUUID()}` } }),
  );
  expect([stale.problem?.code, dns.queries.length]).toEqual(['service.precondition_failed', queries]);
});

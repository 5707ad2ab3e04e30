// A cluster that is rebuilt from its YAML, while the database outside of it stays: every job's address stays, and nobody
// is told that a job is missing.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { ok, type Receiver, startReceiver } from '../support/receiver.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { CHART, type Cluster, HOST_ADDRESS, IMAGE, startCluster } from './cluster.ts';
import { callback, type MonitorObject, monitor, restrictedNamespace, secret } from './objects.ts';

const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
const JOBS = ['job-1', 'job-2', 'job-3'];
const ENCRYPTION_KEYS = `k1:${randomBytes(32).toString('base64')}`;

let database: DatabaseFixture;
let databaseProxy: TcpProxy;
let receiver: Receiver;
let cluster: Cluster;

beforeAll(async () => {
  database = await openDatabaseFixture({ hasSchema: false });
  cluster = await startCluster();
  // The address exists from the first cluster on, and both sockets stay open while there is none.
  receiver = await startReceiver(ok, { host: HOST_ADDRESS });
  databaseProxy = await TcpProxy.start(database.databaseUrl, HOST_ADDRESS);
});
afterAll(async () => {
  await cluster?.down();
  await databaseProxy?.close();
  await receiver?.close();
  await database?.close();
});

/** Everything that Git has of the cluster. */
async function applyAll(): Promise<void> {
  await cluster.apply(
    ...[restrictedNamespace(SYSTEM), restrictedNamespace(TEAM)],
    secret('database', SYSTEM, { url: databaseProxy.url }),
    secret('encryption', SYSTEM, { keys: ENCRYPTION_KEYS }),
  );
  await cluster.helm(
    ...['install', 'beatkeeper', CHART, '--namespace', SYSTEM, '--wait', '--timeout', '5m'],
    ...[
      '--set',
      `image.tag=${IMAGE.first}`,
      '--set',
      `callbacks.allowedPrivateDestinations={${HOST_ADDRESS}/32}`,
    ],
    ...['--set', 'postgresql.enabled=false', '--set', 'database.existingSecret=database'],
    ...['--set', 'encryption.existingSecret=encryption'],
  );
  await cluster.apply(
    callback('oncall', TEAM, receiver.url),
    ...JOBS.map((name) =>
      monitor(name, TEAM, {
        intervalSeconds: 60,
        graceSeconds: 90,
        callback: { kind: 'named', callbackRef: { name: 'oncall' } },
      }),
    ),
  );
  const objects = ['callback/oncall', ...JOBS.map((name) => `monitor/${name}`)];
  await cluster.kubectl('-n', TEAM, 'wait', '--for=condition=Ready', ...objects, '--timeout=300s');
}

const addresses = () => Promise.all(JOBS.map((name) => cluster.secret(`${name}-beat`, 'url', TEAM)));
const monitors = () => Promise.all(JOBS.map((name) => cluster.find<MonitorObject>('monitor', name, TEAM)));

// This machine does not use the cluster's DNS, so the address of the Service replaces its name.
async function beatAll(): Promise<void> {
  const host = await cluster.read('{.spec.clusterIP}', SYSTEM, 'service', 'beatkeeper-api');
  for (const address of await addresses()) {
    const url = Object.assign(new URL(address), { hostname: host });
    expect((await fetchServed(url.href, { method: 'POST' })).status).toBe(200);
  }
}

async function waitUntilUp(): Promise<void> {
  const areUp = async () => (await monitors()).every((one) => one?.status?.health === 'up');
  await waitFor(areUp, { what: 'all are up', timeoutMs: 300_000, intervalMs: 500 });
}

describe('a cluster that is rebuilt from its YAML with the database kept', () => {
  it('gives every job its address again and opens no incident', async () => {
    await applyAll();
    await beatAll();
    await waitUntilUp();
    const before = await monitors();
    const addressesBefore = await addresses();
    const deadlines = before.map((one) => Date.parse(one?.status?.nextDeadlineAt ?? ''));

    await cluster.down();
    cluster = await startCluster();
    await applyAll();

    expect(await addresses()).toEqual(addressesBefore);
    const after = await monitors();
    const idOf = (one: MonitorObject | undefined) => one?.status?.monitorId;
    expect(after.map(idOf)).toEqual(before.map(idOf));
    // Nothing runs yet, and the deadlines from before the rebuild pass: that is no reason to alert.
    await delay(Math.max(0, ...deadlines.map((at) => at + 10_000 - Date.now())));
    await beatAll();
    await waitUntilUp();
    const { rows } = await database.pool.query('select count(*)::int as count from incidents');
    expect(rows).toEqual([{ count: 0 }]);
    expect(receiver.requests).toEqual([]);
  });

  it('gives an object of another UID its monitor, and says so', async () => {
    const events = await cluster.kubectl('-n', TEAM, 'get', 'events', '-o', 'jsonpath={.items[*].reason}');
    expect(events.split(' ').filter((reason) => reason === 'Adopted')).toHaveLength(JOBS.length + 1);
  });
});

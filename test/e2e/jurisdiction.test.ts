// The chart with a database of its own for the jurisdiction eu: where its monitors are, and that nobody else notices when it
// is away. The tests run in this order: each one starts from the state that the test before it left.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { lowerMinimums } from '../../src/dev/control-plane/development-cluster.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { type AlertBody, ok, type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatLoad, startBeatLoad } from './beat-load.ts';
import { CHART, type Cluster, HOST_ADDRESS, IMAGE, startCluster } from './cluster.ts';
import { callback, monitor, restrictedNamespace, secret } from './objects.ts';
import { type Product, useProduct } from './product.ts';
import {
  countRowsWith,
  type Psql,
  psqlIn,
  readExample,
  type SecondDatabase,
  startSecondDatabase,
} from './second-database.ts';

const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
/** Interval and grace of the monitors that go silent: less than users may have, so that nobody waits for minutes. */
const SECONDS = 15;
const SILENT = {
  intervalSeconds: SECONDS,
  graceSeconds: SECONDS,
  callback: { kind: 'named', callbackRef: { name: 'oncall' } },
};

let cluster: Cluster;
let receiver: Receiver;
let product: Product;
let eu: SecondDatabase;
let defaultPsql: Psql;
const loads: { steady?: BeatLoad; eu?: BeatLoad } = {};

beforeAll(async () => {
  cluster = await startCluster();
  receiver = await startReceiver(ok, { host: HOST_ADDRESS });
  product = useProduct(cluster, SYSTEM, TEAM);
  defaultPsql = psqlIn(cluster, SYSTEM, 'beatkeeper-postgresql-0', 'beatkeeper');
  await cluster.apply(restrictedNamespace(SYSTEM), restrictedNamespace(TEAM));
  eu = await startSecondDatabase(cluster, 'databases', 'eu');
  const urls = { url: eu.url, 'owner-url': eu.ownerUrl };
  await cluster.apply(secret('beatkeeper-eu', SYSTEM, urls));
});
afterAll(async () => {
  for (const load of Object.values(loads)) await load.stop();
  await receiver?.close();
  await cluster?.down();
});

async function install(): Promise<void> {
  const lowered = { extraEnv: [{ name: 'BEATKEEPER_MINIMUM_INTERVAL_SECONDS', value: `${SECONDS}` }] };
  const values = {
    ...parse(await readExample('yaml', 'jurisdictions:')),
    image: { tag: IMAGE.first },
    callbacks: { allowedPrivateDestinations: [`${HOST_ADDRESS}/32`] },
    ...{ api: lowered, sweeper: lowered },
  };
  await cluster.helmWith(
    values,
    ...['install', 'beatkeeper', CHART, '--namespace', SYSTEM, '--wait', '--timeout', '5m'],
  );
  const connection = connectCluster(cluster.kubeconfig);
  await applyCrds(connection, (crd) => lowerMinimums(crd, SECONDS)).finally(() =>
    connection.transport.close(),
  );
}

/** The events about this Monitor that the receiver has got, in their order. */
async function eventsOf(name: string): Promise<string[]> {
  const signingSecret = await cluster.secret('oncall-signing', 'secret', TEAM);
  const { monitorId } = (await product.findMonitor(name))?.status ?? {};
  return receiver.requests
    .map((request) => verifyWebhook(request, signingSecret) as AlertBody)
    .filter(({ data }) => data.monitor.monitorId === monitorId)
    .map(({ type, data }) => `${type} ${data.incident.kind}`);
}

const waitForEvent = (name: string, event: string) =>
  waitFor(async () => (await eventsOf(name)).includes(event), {
    what: `${name}: ${event}`,
    timeoutMs: 300_000,
    intervalMs: 500,
  });

/** What names this monitor in rows: its id, its key and its publish address. `psql` is of the database that has it. */
async function namesOf(name: string, psql: Psql): Promise<string[]> {
  const { monitorId = '' } = (await product.findMonitor(name))?.status ?? {};
  const rows = await psql(
    `select monitor_id, monitor_key, publish_address from monitors where monitor_id = '${monitorId}';`,
  );
  expect(rows).toHaveLength(1);
  return rows[0]?.split('|') ?? [];
}

/** Checks that rows about the monitor are in these tables of the one database, and nowhere in the other one. */
async function expectHome(name: string, home: Psql, other: Psql, tables: string[]): Promise<void> {
  const names = await namesOf(name, home);
  const [, key = ''] = names;
  expect(Object.keys(await countRowsWith(home, key)), name).toEqual(expect.arrayContaining(tables));
  for (const text of names) expect(await countRowsWith(other, text), `${name}: ${text}`).toEqual({});
}

const HOME_TABLES = ['monitors', 'monitor_live', 'monitor_changes', 'publish_addresses', 'observations'];

const listNames = async (query = '') => {
  const { items } = await product.readApi<{ items: { name: string }[] }>(`/v1/monitors${query}`);
  return items.map(({ name }) => name).sort();
};

/** How often each container of the release has started again. */
const restarts = () =>
  cluster.read(
    '{.items[*].status.containerStatuses[*].restartCount}',
    SYSTEM,
    'pods',
    '-l',
    'app.kubernetes.io/name=beatkeeper',
  );

describe('an installation with a database for eu', () => {
  it('makes a Monitor of eu and one without a jurisdiction ready, and takes their beats', async () => {
    await install();
    await cluster.apply(
      callback('oncall', TEAM, receiver.url),
      monitor('steady', TEAM, { ...SILENT, intervalSeconds: 3600 }),
      monitor('in-eu', TEAM, { ...SILENT, jurisdiction: 'eu' }),
    );
    await product.waitUntilReady('steady', 'in-eu');
    loads.steady = startBeatLoad([await product.beatUrl('steady')]);
    loads.eu = startBeatLoad([await product.beatUrl('in-eu')]);
    for (const name of ['steady', 'in-eu']) {
      await product.beat(name);
      await product.waitForMonitor(name, 'is up', ({ health }) => health === 'up');
    }
    expect(await listNames()).toEqual(['in-eu', 'steady']);
  });

  it('keeps what belongs to each in one database alone', async () => {
    await expectHome('in-eu', eu.psql, defaultPsql, HOME_TABLES);
    await expectHome('steady', defaultPsql, eu.psql, HOME_TABLES);
  });
});

describe('while the database of eu is away', () => {
  let before: string;

  it('lists say so, and those of another jurisdiction do without it', async () => {
    before = await restarts();
    await eu.stop();
    const problem = await waitFor(
      async () => {
        const answer = await product.callApiOnce('/v1/monitors');
        const body = (await answer.json()) as { jurisdiction?: string };
        return body.jurisdiction !== undefined && { status: answer.status, ...body };
      },
      { what: 'a list is refused', intervalMs: 500 },
    );
    expect(problem).toMatchObject({ status: 503, jurisdiction: 'eu' });
    const ofEu = await product.callApiOnce('/v1/monitors?jurisdiction=eu');
    expect([ofEu.status, await ofEu.json()]).toMatchObject([503, { jurisdiction: 'eu' }]);
    expect(await listNames('?jurisdiction=unrestricted')).toEqual(['steady']);
  });

  it('another Monitor is made, takes beats and alerts', async () => {
    await cluster.apply(monitor('silent', TEAM, SILENT));
    await product.waitUntilReady('silent');
    await product.beat('silent');
    await product.waitForMonitor('silent', 'is down', ({ health }) => health === 'down');
    await waitForEvent('silent', 'incident.opened missed_deadline');
  });

  it('its beats are refused with 503, and no process of the release is unready or starts again', async () => {
    const { lost } = (await loads.eu?.stop()) ?? { lost: [] };
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.filter((result) => !/^\S+ 503 /.test(result))).toEqual([]);
    for (const role of ['api', 'sweeper', 'operator']) {
      await cluster.kubectl(
        '-n',
        SYSTEM,
        'rollout',
        'status',
        `deployment/beatkeeper-${role}`,
        '--timeout=300s',
      );
    }
    expect(await restarts()).toBe(before);
    expect(await eventsOf('in-eu')).toEqual([]);
  });
});

describe('when the database of eu is back', () => {
  it('it has every beat that was acknowledged, and its dead monitor alerts once', async () => {
    await eu.start();
    const { acknowledged = 0 } = (await loads.eu?.stop()) ?? {};
    interface Listed {
      items: { status: { lastSequence: number } }[];
    }
    const { items } = await product.readApi<Listed>('/v1/monitors?jurisdiction=eu');
    expect(items).toHaveLength(1);
    expect(items[0]?.status.lastSequence).toBeGreaterThanOrEqual(acknowledged + 1);
    await product.waitForMonitor('in-eu', 'is down', ({ health }) => health === 'down');
    await waitForEvent('in-eu', 'incident.opened missed_deadline');
    await product.beat('in-eu');
    await waitForEvent('in-eu', 'incident.recovered missed_deadline');
    expect(await eventsOf('in-eu')).toEqual([
      'incident.opened missed_deadline',
      'incident.recovered missed_deadline',
    ]);
    expect(await listNames()).toEqual(['in-eu', 'silent', 'steady']);
  });

  it('no beat of the other database was lost in all that time, and none of its monitors alerted falsely', async () => {
    const { sent, acknowledged, lost } = (await loads.steady?.stop()) ?? {
      sent: 0,
      acknowledged: 0,
      lost: [],
    };
    expect(lost).toEqual([]);
    expect(acknowledged).toBe(sent);
    expect(acknowledged).toBeGreaterThan(0);
    expect(await eventsOf('steady')).toEqual([]);
    expect(await eventsOf('silent')).toEqual(['incident.opened missed_deadline']);
  });

  it('incidents and deliveries are where their monitor is, and nowhere else', async () => {
    const tables = [...HOME_TABLES, 'incidents', 'deliveries'];
    await expectHome('in-eu', eu.psql, defaultPsql, tables);
    await expectHome('silent', defaultPsql, eu.psql, tables);
  });
});

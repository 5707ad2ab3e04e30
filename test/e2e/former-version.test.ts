// An installation of the version before this one, which is upgraded, rolled back and upgraded again under load, as its users
// do it with Helm. The tests run in this order: each one starts from the state that the test before it left.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AlertBody, ok, type Receiver, startReceiver } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { startBeatLoad } from './beat-load.ts';
import { CHART, type Cluster, HOST_ADDRESS, IMAGE, startCluster } from './cluster.ts';
import { extractFormerVersion, type FormerVersion } from './former-version.ts';
import { callback, type MonitorObject, type MonitorStatus, monitor, restrictedNamespace } from './objects.ts';
import { type Product, useProduct } from './product.ts';
import { type Psql, psqlIn } from './second-database.ts';

const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
const FORMER_TAG = 'e2e-former';
/** They live all the time. */
const JOBS = ['job-1', 'job-2', 'job-3', 'job-4'];
/** Each beats for the last time just before a change, and must be found. */
const DEAD = { upgrade: 'dead-at-upgrade', rollback: 'dead-at-rollback', again: 'dead-at-second-upgrade' };
const PAGED = { kind: 'named', callbackRef: { name: 'oncall' } };
const SCHEDULES = [{ cron: '0 3 * * 0', durationSeconds: 3600, reason: 'Restarts' }];
const wait = ['--namespace', SYSTEM, '--wait', '--timeout', '5m'];
const settings = (tag: string) => [
  ...wait,
  ...['--set', `image.tag=${tag}`, '--set', `callbacks.allowedPrivateDestinations={${HOST_ADDRESS}/32}`],
];

let former: FormerVersion;
let packages: string;
let cluster: Cluster;
let receiver: Receiver;
let product: Product;
let psql: Psql;

beforeAll(async () => {
  former = await extractFormerVersion();
  cluster = await startCluster([{ folder: former.folder, tag: FORMER_TAG }]);
  receiver = await startReceiver(ok, { host: HOST_ADDRESS });
  product = useProduct(cluster, SYSTEM, TEAM);
  psql = psqlIn(cluster, SYSTEM, 'beatkeeper-postgresql-0', 'beatkeeper');
  packages = await mkdtemp(join(tmpdir(), 'beatkeeper-packages-'));
  await cluster.apply(restrictedNamespace(SYSTEM), restrictedNamespace(TEAM));
});
afterAll(async () => {
  await receiver?.close();
  await cluster?.down();
  await former?.remove();
  if (packages !== undefined) await rm(packages, { recursive: true });
});

const imageOf = (tag: string) => `${IMAGE.repository}:${tag}`;

async function packageChart(folder: string): Promise<string> {
  const output = await cluster.helm('package', folder, '--destination', packages);
  return output.trim().split(': ').at(-1) ?? '';
}

const rolesWith = async (tag: string) => {
  const images = await cluster.read('{.items[*].spec.containers[0].image}', SYSTEM, 'pods');
  const ours = images.split(' ').filter((image) => image.startsWith(`${IMAGE.repository}:`));
  return ours.length > 0 && ours.every((image) => image === imageOf(tag));
};

const schemaVersion = async () => (await psql('select max(version) from schema_migrations'))[0];

/** Of each job how many observations it has; throws where one is twice or missing among them. */
async function countBeats(): Promise<Map<string, number>> {
  const rows =
    await psql(`select m.name, count(o.sequence), count(distinct o.sequence), coalesce(max(o.sequence), 0)
    from monitors m left join observations o using (monitor_key) group by m.name`);
  return new Map(
    rows.map((row) => {
      const [name = '', count, distinct, last] = row.split('|');
      expect([name, distinct, last]).toEqual([name, count, count]);
      return [name, Number(count)];
    }),
  );
}

/**
 * Changes the release under load until each pod has this image and what `judge` waits for is so, and accounts for every beat.
 */
async function changeUnderLoad(
  tag: string,
  change: () => Promise<unknown>,
  judge: () => Promise<void>,
): Promise<void> {
  const before = await countBeats();
  const load = startBeatLoad(await Promise.all(JOBS.map(product.beatUrl)));
  try {
    await change();
    await waitFor(() => rolesWith(tag), {
      what: `every pod has ${tag}`,
      timeoutMs: 300_000,
      intervalMs: 500,
    });
    await judge();
  } finally {
    await load.stop();
  }
  const { sent, acknowledged, lost } = await load.stop();
  expect(lost).toEqual([]);
  expect(acknowledged).toBe(sent);
  const after = await countBeats();
  const stored = JOBS.reduce((sum, name) => sum + (after.get(name) ?? 0) - (before.get(name) ?? 0), 0);
  expect(stored).toBe(sent);
}

/** The roles of the version that runs find the silent jobs, and these alone, and keep each status, by beats of this moment. */
async function expectTruth(silent: readonly string[]): Promise<void> {
  const since = Date.now();
  for (const name of silent) await product.waitForMonitor(name, 'is down', ({ health }) => health === 'down');
  for (const name of JOBS) {
    // The operator follows the status feed of this version's api.
    const isFollowed = ({ health, lastBeatAt = '' }: MonitorStatus) =>
      health === 'up' && Date.parse(lastBeatAt) > since;
    await product.waitForMonitor(name, 'shows its newest beats', isFollowed);
  }
  await product.waitUntilReady(...JOBS, ...silent);
  const ids = await Promise.all(
    silent.map(async (name) => (await product.findMonitor(name))?.status?.monitorId),
  );
  const incidents = await psql('select monitor_id, kind, state, event_sequence from incidents order by 1');
  expect(incidents).toEqual(ids.map((id) => `${id}|missed_deadline|open|1`).sort());
  await waitFor(() => receiver.requests.length >= silent.length, { what: 'the alert' });
  const alerts = receiver.requests.map((request) => JSON.parse(request.body) as AlertBody);
  expect(alerts.map(({ type }) => type)).toEqual(silent.map(() => 'incident.opened'));
  expect(new Set(alerts.map(({ data }) => data.incident.monitorId))).toEqual(new Set(ids));
}

const specOf = async (name: string) =>
  (await cluster.find<MonitorObject & { spec: object }>('monitor', name, TEAM))?.spec;

describe('an installation of the version before', () => {
  it('works, with Monitors whose jobs beat', async () => {
    const chart = await packageChart(join(former.folder, 'charts', 'beatkeeper'));
    await cluster.helm('install', 'beatkeeper', chart, ...settings(FORMER_TAG));
    const timing = { intervalSeconds: 60, graceSeconds: 60, awaitFirstBeat: true };
    await cluster.apply(
      callback('oncall', TEAM, receiver.url),
      ...[...JOBS, ...Object.values(DEAD)].map((name) => monitor(name, TEAM, { ...timing, callback: PAGED })),
    );
    await cluster.kubectl('-n', TEAM, 'wait', '--for=condition=Ready', 'callback/oncall', '--timeout=300s');
    await product.waitUntilReady(...JOBS, ...Object.values(DEAD));
    for (const name of JOBS) await product.beat(name);
    expect(await schemaVersion()).toBe('3');
    expect(await psql('select count(*) from incidents')).toEqual(['0']);
  });

  it('is upgraded under load: no beat is lost, no living job alerts, and every Monitor goes on', async () => {
    const chart = await packageChart(CHART);
    await product.beat(DEAD.upgrade);
    await changeUnderLoad(
      IMAGE.first,
      () => cluster.helm('upgrade', 'beatkeeper', chart, ...settings(IMAGE.first)),
      () => expectTruth([DEAD.upgrade]),
    );
    expect(await schemaVersion()).toBe('4');
    // What only this version knows is in use when it is rolled back.
    await cluster.apply(
      monitor('planned', TEAM, { intervalSeconds: 3600, callback: PAGED, maintenanceSchedules: SCHEDULES }),
    );
    await product.waitUntilReady('planned');
  });

  it('is rolled back under load: the version before works on the newer schema and beside the newer definitions', async () => {
    await product.beat(DEAD.rollback);
    await changeUnderLoad(
      FORMER_TAG,
      () => cluster.helm('rollback', 'beatkeeper', '1', ...wait),
      () => expectTruth([DEAD.upgrade, DEAD.rollback]),
    );
    expect(await schemaVersion()).toBe('4');
    await cluster.apply(monitor('made-after-rollback', TEAM, { intervalSeconds: 3600, callback: PAGED }));
    await product.waitUntilReady('planned', 'made-after-rollback');
    await product.beat('made-after-rollback');
    expect(await specOf('planned')).toMatchObject({ maintenanceSchedules: SCHEDULES });
    expect(await psql('select name from monitors where maintenance_schedules is not null')).toEqual([
      'planned',
    ]);
  });

  it('is upgraded again under load, and what the newer version had set counts again', async () => {
    const chart = await packageChart(CHART);
    await product.beat(DEAD.again);
    await changeUnderLoad(
      IMAGE.second,
      () => cluster.helm('upgrade', 'beatkeeper', chart, ...settings(IMAGE.second)),
      () => expectTruth(Object.values(DEAD)),
    );
    await product.waitUntilReady('planned', 'made-after-rollback');
    const { monitorId } = (await product.findMonitor('planned'))?.status ?? {};
    expect(await product.readApi(`/v1/monitors/${monitorId}`)).toMatchObject({
      maintenanceSchedules: [{ ...SCHEDULES[0], timeZone: 'UTC' }],
    });
  });
});

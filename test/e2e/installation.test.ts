// The chart on a real cluster, from the first install to an uninstall and back. The tests run in this order: each one
// starts from the state that the test before it left.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AlertBody, ok, type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import { startBeatLoad } from './beat-load.ts';
import {
  CHART,
  CHECKOUT,
  type Cluster,
  HOST_ADDRESS,
  IMAGE,
  makeNextChart,
  startCluster,
} from './cluster.ts';
import { beatingPod, callback, monitor, restrictedNamespace } from './objects.ts';
import { type Product, useProduct } from './product.ts';

const KUBECTL_BEAT = join(CHECKOUT, 'src', 'kubectl', 'main.ts');
const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
const JOBS = ['job-1', 'job-2', 'job-3', 'job-4'];
const settings = (tag: string) => [
  ...['--namespace', SYSTEM, '--wait', '--timeout', '5m'],
  ...['--set', 'auth.tokenReview.enabled=true'],
  ...['--set', `image.tag=${tag}`, '--set', `callbacks.allowedPrivateDestinations={${HOST_ADDRESS}/32}`],
];

let cluster: Cluster;
let receiver: Receiver;
let product: Product;

beforeAll(async () => {
  cluster = await startCluster();
  receiver = await startReceiver(ok, { host: HOST_ADDRESS });
  product = useProduct(cluster, SYSTEM, TEAM);
  await cluster.apply(restrictedNamespace(SYSTEM), restrictedNamespace(TEAM));
});
afterAll(async () => {
  await receiver?.close();
  await cluster?.down();
});

const lastSequences = async () => {
  const { items } = await product.readApi<{ items: { name: string; status: { lastSequence?: number } }[] }>(
    '/v1/monitors',
  );
  return new Map(items.map(({ name, status }) => [name, status.lastSequence ?? 0]));
};

describe('on an empty cluster', () => {
  it('helm install makes a working service, and helm test confirms it', async () => {
    await cluster.helm('install', 'beatkeeper', CHART, ...settings(IMAGE.first));
    const output = await cluster.helm('test', 'beatkeeper', '--namespace', SYSTEM, '--timeout', '4m');
    expect(output).toMatch(/Phase:\s+Succeeded/);
    expect(await cluster.kubectl('-n', SYSTEM, 'get', 'monitors')).toBe('');
  });

  it('each role has the rights that it needs and no others', async () => {
    const can = async (role: string, ...what: string[]) => {
      const as = `--as=system:serviceaccount:${SYSTEM}:beatkeeper-${role}`;
      const answer = await cluster.kubectl('auth', 'can-i', ...what, as, '-n', TEAM).catch(() => 'no');
      return answer.trim() === 'yes';
    };
    expect(await can('operator', 'get', 'secrets')).toBe(true);
    expect(await can('operator', 'list', 'secrets')).toBe(false);
    expect(await can('operator', 'watch', 'monitors.beatkeeper.dev')).toBe(true);
    expect(await can('operator', 'create', 'pods')).toBe(false);
    for (const role of ['api', 'sweeper', 'owner']) {
      expect(await can(role, 'get', 'secrets'), role).toBe(false);
      expect(await can(role, 'get', 'monitors.beatkeeper.dev'), role).toBe(false);
    }
    expect(await can('api', 'get', '/openid/v1/jwks')).toBe(true);
  });

  it('the operator may not make a token of another service account', async () => {
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/service-account-token',
      metadata: {
        name: 'stolen',
        namespace: TEAM,
        annotations: { 'kubernetes.io/service-account.name': 'default' },
      },
    };
    const as = `--as=system:serviceaccount:${SYSTEM}:beatkeeper-operator`;
    await expect(cluster.create(secret, as)).rejects.toThrow('may write only Opaque Secrets');
  });

  it('the token of a service account that is deleted signs in no more after 60 s', async () => {
    const token = await product.tokenOf('member');
    const status = async () => (await product.callApi('/v1/projects', token)).status;
    expect(await status()).toBe(200);
    await cluster.kubectl('-n', SYSTEM, 'delete', 'serviceaccount', 'beatkeeper-member');
    await waitFor(async () => (await status()) === 401, {
      what: 'the token is refused',
      timeoutMs: 300_000,
      intervalMs: 1_000,
    });
    expect((await product.callApi('/v1/projects')).status).toBe(200);
  });

  it('api and sweeper connect as a role that may not change tables, also after the database has lost it', async () => {
    const psql = async (sql: string) => {
      const exec = [
        '-n',
        SYSTEM,
        'exec',
        'beatkeeper-postgresql-0',
        '--',
        'psql',
        '-U',
        'postgres',
        '-d',
        'beatkeeper',
      ];
      return (await cluster.kubectl(...exec, '-Atc', sql)).trim().split('\n');
    };
    const roles = () =>
      psql(`select rolname, rolsuper or rolcreatedb or rolcreaterole, rolpassword is null,
          has_schema_privilege(oid, 'public', 'create')
        from pg_authid where rolcanlogin order by 1`);
    const wanted = ['beatkeeper|f|f|t', 'beatkeeper_application|f|f|f', 'postgres|t|t|t'];
    expect(await roles()).toEqual(wanted);
    const users = () =>
      psql(`select distinct usename from pg_stat_activity where application_name like 'beatkeeper-%'`);
    expect(await users()).toEqual(['beatkeeper_application']);
    await psql('alter role beatkeeper_application nologin password null');
    await psql('alter role beatkeeper superuser');
    await cluster.kubectl('-n', SYSTEM, 'delete', 'pod', 'beatkeeper-postgresql-0', '--timeout=300s');
    const isBack = async () => (await roles().catch(() => [])).join() === wanted.join();
    await waitFor(isBack, { what: 'the roles are right again', timeoutMs: 300_000, intervalMs: 500 });
    const connected = async () => (await users()).join() === 'beatkeeper_application';
    await waitFor(connected, { what: 'they are connected again', timeoutMs: 300_000, intervalMs: 500 });
  });
});

describe('the loop, with YAML alone', () => {
  const events = async (): Promise<AlertBody[]> => {
    const secret = await cluster.secret('oncall-signing', 'secret', TEAM);
    return receiver.requests.map((request) => verifyWebhook(request, secret) as AlertBody);
  };

  it('a Monitor and its Callback become ready and get their Secrets', async () => {
    await cluster.apply(
      callback('oncall', TEAM, receiver.url),
      monitor('backup', TEAM, {
        intervalSeconds: 60,
        graceSeconds: 60,
        callback: { kind: 'named', callbackRef: { name: 'oncall' } },
      }),
    );
    await cluster.kubectl('-n', TEAM, 'wait', '--for=condition=Ready', 'callback/oncall', '--timeout=300s');
    await product.waitUntilReady('backup');
    expect(await cluster.secret('backup-beat', 'url', TEAM)).toMatch(
      /^http:\/\/beatkeeper-api\.beatkeeper\.svc\/ping\//,
    );
    expect(await cluster.secret('oncall-signing', 'secret', TEAM)).toMatch(/^sigcb_v1_/);
  });

  it('a job that beats the address in the Secret makes the monitor up', async () => {
    await cluster.apply(beatingPod('backup-run', TEAM, `${IMAGE.repository}:${IMAGE.first}`, 'backup-beat'));
    await cluster.kubectl(
      '-n',
      TEAM,
      'wait',
      '--for=jsonpath={.status.phase}=Succeeded',
      'pod/backup-run',
      '--timeout=300s',
    );
    await product.waitForMonitor('backup', 'is up', ({ health }) => health === 'up');
  });

  it('a silent monitor is down soon after its deadline, and one signed alert arrives', async () => {
    const { nextDeadlineAt = '' } = (await product.findMonitor('backup'))?.status ?? {};
    const { openIncidents = [] } = await product.waitForMonitor(
      'backup',
      'is down',
      ({ health }) => health === 'down',
    );
    expect(openIncidents).toMatchObject([{ kind: 'missed_deadline', state: 'open' }]);
    const delayMs = Date.parse(openIncidents[0]?.openedAt ?? '') - Date.parse(nextDeadlineAt);
    expect(delayMs).toBeGreaterThanOrEqual(0);
    // The contract promises 2 s; the rest is for a machine that runs a whole cluster and may be busy.
    expect(delayMs).toBeLessThan(60_000);
    await waitFor(() => receiver.requests.length > 0, { what: 'the alert', timeoutMs: 300_000 });
    expect(await events()).toMatchObject([
      {
        type: 'incident.opened',
        data: { projectName: TEAM, sequence: 1, incident: { kind: 'missed_deadline' } },
      },
    ]);
    expect(await cluster.kubectl('-n', TEAM, 'get', 'monitors')).toMatch(
      /backup +down +1m .*missed_deadline +True/,
    );
  });

  it('kubectl beat says that it is down, and asks the API why through a forwarded port', async () => {
    const beat = (...args: string[]) =>
      runProgram(process.execPath, [KUBECTL_BEAT, ...args, '-n', TEAM], {
        env: { PATH: process.env.PATH, HOME: process.env.HOME, KUBECONFIG: cluster.kubeconfig },
      });
    const status = await beat('status');
    expect(status, status.stderr).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^backup +down /m),
    });
    const explained = await beat('explain', 'backup');
    expect(explained, explained.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(explained.stdout).toMatch(/^No deadline runs:$/m);
    const inImage = ['exec', 'deployment/beatkeeper-api', '--', 'kubectl-beat', '--help'];
    expect(await cluster.kubectl('-n', SYSTEM, ...inImage)).toContain('Usage: kubectl beat <command>');
  });

  it('the next beat makes the monitor up again and sends a recovery', async () => {
    await product.beat('backup');
    await product.waitForMonitor('backup', 'is up again', ({ health }) => health === 'up');
    await waitFor(() => receiver.requests.length > 1, { what: 'the second alert', timeoutMs: 300_000 });
    expect((await events()).map(({ type }) => type)).toEqual(['incident.opened', 'incident.recovered']);
  });

  it('kubectl delete of a Monitor finishes and archives the monitor', async () => {
    const { monitorId } = (await product.findMonitor('backup'))?.status ?? {};
    for (const name of JOBS)
      await cluster.apply(monitor(name, TEAM, { intervalSeconds: 3600, callback: { kind: 'disabled' } }));
    for (const name of JOBS) await product.waitUntilReady(name);
    await cluster.kubectl('-n', TEAM, 'delete', 'monitor', 'backup', '--timeout=300s');
    expect(await product.readApi(`/v1/monitors/${monitorId}`)).toMatchObject({ lifecycle: 'archived' });
    expect(await cluster.find('secret', 'backup-beat', TEAM)).toBeUndefined();
  });
});

const databasePod = () => cluster.read('{.metadata.uid}', SYSTEM, 'pod', 'beatkeeper-postgresql-0');
const podImages = () => cluster.read('{.items[*].spec.containers[0].image}', SYSTEM, 'pods');

describe('a release', () => {
  it('an upgrade under load loses no beat and updates the CRDs', async () => {
    const chart = await makeNextChart(); // a version alone must not restart the database
    const column = [{ op: 'remove', path: '/spec/versions/0/additionalPrinterColumns/0' }];
    await cluster.kubectl(
      'patch',
      'crd',
      'monitors.beatkeeper.dev',
      '--type=json',
      '--patch',
      JSON.stringify(column),
    );
    const before = await lastSequences();
    const database = await databasePod();
    const load = startBeatLoad(await Promise.all(JOBS.map(product.beatUrl)));
    await cluster.helm('upgrade', 'beatkeeper', chart, ...settings(IMAGE.second));
    const replaced = async () => !(await podImages()).includes(IMAGE.first);
    await waitFor(replaced, { what: 'no old pod is left', timeoutMs: 300_000, intervalMs: 500 });
    const { sent, acknowledged, lost } = await load.stop();
    await rm(chart, { recursive: true });

    expect(lost).toEqual([]);
    expect(acknowledged).toBe(sent);
    const after = await lastSequences();
    const stored = JOBS.reduce((sum, name) => sum + (after.get(name) ?? 0) - (before.get(name) ?? 0), 0);
    expect(stored).toBe(sent);
    expect(await databasePod()).toBe(database);
    expect(await cluster.kubectl('get', 'monitors', '-n', TEAM)).toMatch(/^NAME +HEALTH/);
  });

  it('an uninstall leaves CRDs, objects, data and secrets, and no object hangs in its deletion', async () => {
    await cluster.helm('uninstall', 'beatkeeper', '--namespace', SYSTEM, '--wait', '--timeout', '5m');
    const crds = await cluster.kubectl('get', 'crd', '-o', 'name');
    expect(crds).toContain('monitors.beatkeeper.dev');
    expect(crds).toContain('callbacks.beatkeeper.dev');
    for (const name of JOBS) expect((await product.findMonitor(name))?.metadata.finalizers ?? []).toEqual([]);
    const kept = await cluster.kubectl('-n', SYSTEM, 'get', 'secret,pvc', '-o', 'name');
    expect(kept).toContain('secret/beatkeeper-postgresql');
    expect(kept).toContain('secret/beatkeeper-encryption');
    expect(kept).toContain('persistentvolumeclaim/data-beatkeeper-postgresql-0');
    expect(await cluster.kubectl('get', 'clusterrole,clusterrolebinding', '-o', 'name')).not.toContain(
      'beatkeeper',
    );
    const { status } = (await product.findMonitor(JOBS[0] ?? '')) ?? {};
    expect(status?.health).toBe('unknown');
    expect(new Set(status?.conditions?.map(({ reason }) => reason))).toEqual(new Set(['NotInstalled']));
    expect(await cluster.kubectl('-n', SYSTEM, 'get', 'leases', '-o', 'name')).toBe('');
    await cluster.kubectl('-n', TEAM, 'delete', 'monitor', JOBS.at(-1) ?? '', '--timeout=300s');
  });

  it('a new install continues with the data of the old one', async () => {
    const [name = ''] = JOBS;
    const before = await product.findMonitor(name);
    const address = await cluster.secret(`${name}-beat`, 'url', TEAM);
    await cluster.helm('install', 'beatkeeper', CHART, ...settings(IMAGE.first));
    const finalized = async () =>
      (await product.findMonitor(name))?.metadata.finalizers?.includes('beatkeeper.dev/sync');
    await waitFor(finalized, {
      what: 'the operator manages the Monitor',
      timeoutMs: 300_000,
      intervalMs: 500,
    });
    await product.waitUntilReady(name);
    const sequence = (await lastSequences()).get(name) ?? 0;
    expect(sequence).toBeGreaterThan(0);
    await product.beat(name);
    expect((await lastSequences()).get(name)).toBe(sequence + 1);
    expect((await product.findMonitor(name))?.status?.monitorId).toBe(before?.status?.monitorId);
    expect(await cluster.secret(`${name}-beat`, 'url', TEAM)).toBe(address);
  });

  it('a namespace with Monitors can be deleted', async () => {
    await cluster.kubectl('delete', 'namespace', TEAM, '--timeout=300s');
  });
});

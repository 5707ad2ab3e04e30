// The command `secrets`, which a Job of the chart runs: it creates what is missing and leaves alone what is there.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../src/config/shared-settings.ts';
import type { Cluster } from '../../src/install/apply-manifests.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { createSecrets } from '../../src/install/create-secrets.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { connectThroughProxy, hasCluster, adminKubeconfig as KUBECONFIG } from '../kube/cluster.ts';
import { runRole } from '../support/run-program.ts';

describe.skipIf(!hasCluster)('the command that makes the Secrets of an installation', () => {
  let cluster: Cluster;
  beforeAll(() => {
    cluster = connectCluster(KUBECONFIG);
  });
  afterAll(() => cluster.transport.close());

  const newNames = () => ({ encryption: `e-${randomUUID()}`, database: `d-${randomUUID()}` });
  const run = ({ encryption, database }: Partial<ReturnType<typeof newNames>>, more: object = {}) =>
    runRole(['secrets'], {
      KUBECONFIG,
      POD_NAMESPACE: 'default',
      ...(encryption === undefined ? {} : { BEATKEEPER_ENCRYPTION_SECRET: encryption }),
      ...(database === undefined ? {} : { BEATKEEPER_DATABASE_SECRET: database }),
      ...more,
    });
  const read = async (name: string) => {
    const secret = await cluster.client.get(SECRETS, { namespace: 'default', name });
    const data = Object.entries(secret.data ?? {}).map(
      ([key, value]) => [key, Buffer.from(value, 'base64').toString()] as const,
    );
    return { secret, data: Object.fromEntries(data) };
  };

  test('both Secrets are created with values that api and Postgres can use, and each installation has its own', async () => {
    const [one, other] = [newNames(), newNames()];
    for (const names of [one, other]) expect(await run(names)).toMatchObject({ code: 0, stderr: '' });
    const [found, elsewhere] = [await read(one.encryption), await read(other.encryption)];
    const [key] = keys().parse(found.data.keys);
    expect(key?.key).toHaveLength(32);
    expect(keys().parse(elsewhere.data.keys)[0]?.id).not.toBe(key?.id);
    const { data: passwords } = await read(one.database);
    expect(Object.keys(passwords).sort()).toEqual(['application-password', 'owner-password']);
    for (const password of Object.values(passwords)) expect(password).toMatch(/^[A-Za-z0-9]{32,}$/);
    expect(new Set(Object.values(passwords)).size).toBe(2);
  });

  test('a Secret that is there is never changed: by a second run, by two runs at once, or where it holds something else', async () => {
    const names = newNames();
    const metadata = { namespace: 'default', name: names.database };
    const theirs = Buffer.from('theirs').toString('base64');
    await cluster.client.create(SECRETS, { metadata, type: 'Opaque', data: { other: theirs } });
    for (const { code } of await Promise.all([run(names), run(names)])) expect(code).toBe(0);
    const before = await read(names.encryption);
    expect(await run(names)).toMatchObject({ code: 0, stderr: '' });
    expect(await read(names.encryption)).toEqual(before);
    expect((await read(names.database)).data).toEqual({ other: 'theirs' });
  });

  test('a run after one that was killed between the two creates the second one and keeps the first', async () => {
    const names = newNames();
    await run({ encryption: names.encryption });
    const before = await read(names.encryption);
    expect(await run(names)).toMatchObject({ code: 0, stderr: '' });
    expect(await read(names.encryption)).toEqual(before);
    expect((await read(names.database)).data).toHaveProperty('owner-password');
  });

  test('tools that delete what they installed keep the Secrets, and none takes them for its own by a label of the release', async () => {
    const names = newNames();
    await run(names);
    for (const name of Object.values(names)) {
      const { metadata } = (await read(name)).secret;
      expect(metadata.annotations).toMatchObject({
        'helm.sh/resource-policy': 'keep',
        'argocd.argoproj.io/sync-options': 'Delete=false,Prune=false',
      });
      expect(metadata.ownerReferences).toBeUndefined();
      expect(metadata.labels).toEqual({ 'app.kubernetes.io/part-of': 'beatkeeper' });
    }
  });

  test('no value of a Secret stands in the log', async () => {
    const names = newNames();
    const { stdout, stderr } = await run(names, { BEATKEEPER_LOG_LEVEL: 'trace' });
    const values = [await read(names.encryption), await read(names.database)].flatMap(({ data }) =>
      Object.values(data),
    );
    for (const value of values) expect(stdout + stderr).not.toContain(value.replace(/^.*:/, ''));
  });

  test('a refusal of the API server says which Secret, why, and what to do', async () => {
    const encryption = `e-${randomUUID()}`;
    const { code, stderr } = await run(
      { encryption },
      { POD_NAMESPACE: 'no-such-namespace', BEATKEEPER_SECRETS_WAIT_SECONDS: '0' },
    );
    expect(code).toBe(1);
    expect(stderr).toContain(`The Secret no-such-namespace/${encryption} could not be created: `);
    expect(stderr).toContain('namespaces "no-such-namespace" not found. Create it yourself');
    expect(stderr).toContain('name it in encryption.existingSecret');
  });

  test('while the API server is away the command tries again, and then creates both', async () => {
    const { encryption, database } = newNames();
    const { client, transport, proxy, close } = await connectThroughProxy();
    await proxy.refuse();
    const lines: string[] = [];
    // It comes back when the command has said that it tries again.
    const log = createLog(
      { role: 'test', level: 'warn' },
      { write: (line) => void (lines.push(line) === 1 && proxy.accept()) },
    );
    const wanted = {
      namespace: 'default',
      encryptionSecret: encryption,
      databaseSecret: database,
      waitSeconds: 600,
    };
    await createSecrets({ client, transport }, wanted, log);
    await close();
    expect(lines[0]).toContain('trying again');
    expect((await read(encryption)).data).toHaveProperty('keys');
    expect((await read(database)).data).toHaveProperty('owner-password');
  });
});

// Nothing that the chart renders is a secret or differs from the last render: a Job makes the secrets, once.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHART, listWays, type Manifest, NAMESPACE, render, requireHelm, template } from './helm.ts';
import { pickPod, variable } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';
const ways = listWays();

const jobOf = (manifests: Manifest[]) =>
  manifests.find(({ kind, metadata }) => kind === 'Job' && metadata.name.includes('-secrets-'));

describe.skipIf(found === undefined)('what a renderer makes', () => {
  it.each(ways)('no render has a Secret, and a second one is the same as the first: %s', async (_, file) => {
    const { stdout } = await template(helm, {}, file);
    expect((await template(helm, {}, file)).stdout).toBe(stdout);
    expect((await render(helm, {}, file)).filter(({ kind }) => kind === 'Secret')).toEqual([]);
  });

  it.each(ways)(
    'every object names its namespace, so that no tool puts one elsewhere: %s',
    async (_, file) => {
      const inCluster =
        /^(ClusterRole|ClusterRoleBinding|ValidatingAdmissionPolicy|ValidatingAdmissionPolicyBinding)$/;
      const places = (await render(helm, {}, file)).map(({ kind, metadata }) => [
        inCluster.test(kind),
        metadata.namespace ?? '',
      ]);
      const watched = file.includes('namespaces') ? ['payments', 'shop'] : [];
      for (const [isOfCluster, namespace] of places)
        expect(isOfCluster ? [''] : [NAMESPACE, ...watched]).toContain(namespace);
    },
  );

  it('no template asks the cluster, makes up a value, or reads the clock', () => {
    const folder = join(CHART, 'templates');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.(yaml|tpl|txt)$/i.test(name),
    );
    expect(files.length).toBeGreaterThan(20);
    for (const name of files) {
      const actions = readFileSync(join(folder, name), 'utf8').match(/\{\{(?!-? *\/\*).*?\}\}/gs) ?? [];
      for (const action of actions)
        expect(action, name).not.toMatch(
          /\b(lookup|rand\w+|gen\w+(Key|CA|Cert)\w*|uuidv4|now|htpasswd|bcrypt)\b/,
        );
    }
  });
});

describe.skipIf(found === undefined)('the Job that makes the Secrets', () => {
  it('it makes the Secrets that the pods name, unless the user has their own', async () => {
    const [container] = pickPod(
      await render(helm),
      `Job/${jobOf(await render(helm))?.metadata.name}`,
    ).containers;
    expect(variable(container, 'BEATKEEPER_ENCRYPTION_SECRET')).toBe('beatkeeper-encryption');
    expect(variable(container, 'BEATKEEPER_DATABASE_SECRET')).toBe('beatkeeper-postgresql');

    const mine = { encryption: { existingSecret: 'keys' } };
    const manifests = await render(helm, mine);
    const [one] = pickPod(manifests, `Job/${jobOf(manifests)?.metadata.name}`).containers;
    expect(variable(one, 'BEATKEEPER_ENCRYPTION_SECRET')).toBeUndefined();
    expect(variable(one, 'BEATKEEPER_DATABASE_SECRET')).toBe('beatkeeper-postgresql');

    const none = await render(helm, { ...mine, postgresql: { existingSecret: 'passwords' } });
    const isPart = ({ metadata }: Manifest) => metadata.labels?.['app.kubernetes.io/component'] === 'secrets';
    expect(none.filter(isPart)).toEqual([]);
  });

  it('every tool runs it and keeps it: it is no hook, and does not go by itself', async () => {
    const job = jobOf(await render(helm));
    expect(Object.keys(job?.metadata.annotations ?? {}).filter((name) => name.includes('hook'))).toEqual([]);
    expect(job?.spec).not.toHaveProperty('ttlSecondsAfterFinished');
  });

  it('it waits for an API server as long as it takes', async () => {
    const job = jobOf(await render(helm));
    expect(job?.spec).not.toHaveProperty('activeDeadlineSeconds');
    expect(job?.spec).toMatchObject({
      backoffLimit: 1000,
      template: { spec: { restartPolicy: 'OnFailure' } },
    });
  });

  it('it has another name when its spec changes, which a cluster refuses to change, and else the same', async () => {
    const nameOf = async (values: object) => jobOf(await render(helm, values))?.metadata.name;
    const name = await nameOf({});
    expect(name).toMatch(/^beatkeeper-secrets-[0-9a-f]{8}$/);
    expect(await nameOf({ api: { replicas: 7 }, publicUrl: 'https://beats.example.com' })).toBe(name);
    for (const values of [{ image: { tag: 'v2' } }, { commonLabels: { team: 'a' } }, { logLevel: 'debug' }])
      expect(await nameOf(values)).not.toBe(name);
  });

  it('its account may create Secrets in the namespace of the release, and do nothing else', async () => {
    const rights = (await render(helm)).filter(
      ({ kind, metadata }) => /Role$/.test(kind) && metadata.name.endsWith('beatkeeper-secrets'),
    );
    expect(rights).toMatchObject([
      { kind: 'Role', rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['create'] }] },
    ]);
    expect(rights[0]?.metadata.namespace).toBe(NAMESPACE);
  });
});

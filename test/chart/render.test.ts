import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readReadme } from '../../charts/render-readme.ts';
import { runProgram } from '../support/run-program.ts';
import { CHART, listWays, type Manifest, pick, render, requireHelm } from './helm.ts';
import { listPods, pickPod } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';
const ways = listWays();

describe.skipIf(found === undefined)('the chart', () => {
  it.each(ways)('the chart passes helm lint --strict: %s', async (_, file) => {
    const { code, stdout } = await runProgram(helm, ['lint', '--strict', CHART, '--values', file]);
    expect(stdout).toContain('0 chart(s) failed');
    expect(code).toBe(0);
  });

  it.each(ways)('every pod meets the restricted Pod Security Standard: %s', async (_, file) => {
    const pods = listPods(await render(helm, {}, file));
    expect(pods.length).toBeGreaterThan(4);
    for (const { owner, spec, containers } of pods) {
      expect(spec.securityContext, owner).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const container of containers) {
        expect(container.securityContext, `${owner} ${container.name}`).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
        expect(container.resources, owner).toMatchObject({ requests: expect.anything() });
        expect(container.resources.limits?.memory, owner).toBeDefined();
      }
    }
  });

  it.each(ways)('only pods that call the Kubernetes API have its token: %s', async (_, file) => {
    const manifests = await render(helm, {}, file);
    const holders = listPods(manifests)
      .filter(({ spec }) => spec.automountServiceAccountToken !== false)
      .map(({ labels }) => labels['app.kubernetes.io/component']);
    const hooks = file.includes('namespaces') ? ['finalizers'] : ['crds', 'finalizers'];
    const jobs = manifests.some(({ metadata }) => metadata.name === 'beatkeeper-secrets') ? ['secrets'] : [];
    expect(new Set(holders)).toEqual(new Set([...hooks, ...jobs, 'operator', 'test']));
    for (const account of manifests.filter(({ kind }) => kind === 'ServiceAccount')) {
      expect(account.automountServiceAccountToken, account.metadata.name).toBe(false);
    }
  });

  it.each(ways)('no role may list or watch Secrets: %s', async (_, file) => {
    const rules = listRules(await render(helm, {}, file)).filter(({ resources }) =>
      resources.some((resource) => ['secrets', '*'].includes(resource)),
    );
    expect(rules.length).toBeGreaterThan(0);
    for (const { verbs } of rules)
      expect(verbs).not.toEqual(expect.arrayContaining([anyOf('list', 'watch', '*')]));
  });

  it.each(ways)(
    'every service account, ConfigMap and Secret that a pod names exists: %s',
    async (_, file) => {
      const manifests = await render(helm, {}, file);
      const there = new Set(manifests.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
      const given = [
        'beatkeeper-database',
        'beatkeeper-database-owner',
        'beatkeeper-keys',
        'beatkeeper-password',
        'beats-eu',
        'beats-us',
        'stripe',
        'beatkeeper-relay',
      ];
      for (const name of given) there.add(`Secret/${name}`);
      for (const { containers } of listPods(manifests)) {
        for (const { env = [] } of containers.filter(({ args }) => args?.[0] === 'secrets'))
          for (const { value } of env) there.add(`Secret/${value}`);
      }
      for (const { owner, spec, containers } of listPods(manifests)) {
        const { serviceAccountName } = spec;
        if (serviceAccountName) expect(there, owner).toContain(`ServiceAccount/${serviceAccountName}`);
        for (const { env = [], envFrom = [] } of containers) {
          for (const { configMapRef } of envFrom) expect(there).toContain(`ConfigMap/${configMapRef.name}`);
          for (const { valueFrom } of env) {
            const secret = valueFrom?.secretKeyRef?.name;
            if (secret) expect(there, owner).toContain(`Secret/${secret}`);
          }
        }
      }
    },
  );

  it('billing by Stripe gives api alone the signing secret, and the Ingress its address', async () => {
    const manifests = await render(helm, {}, join(CHART, 'ci', 'everything-values.yaml'));
    const holders = listPods(manifests)
      .flatMap(({ owner, containers }) => containers.map((container) => ({ owner, ...container })))
      .filter(({ env = [] }) => env.some(({ valueFrom }) => valueFrom?.secretKeyRef?.name === 'stripe'));
    expect(holders.map(({ name, owner }) => [name, owner])).toEqual([
      ['api', expect.stringContaining('-api')],
    ]);
    expect(holders[0]?.env).toContainEqual({
      name: 'STRIPE_WEBHOOK_SECRET',
      valueFrom: { secretKeyRef: { name: 'stripe', key: 'signing-secret' } },
    });
    const pathsOf = (all: Manifest[]) =>
      JSON.stringify(all.filter(({ kind }) => kind === 'Ingress')).match(/"path":"[^"]+"/g);
    expect(pathsOf(manifests)).toContain('"path":"/billing/stripe"');
    const ingress = { api: { ingress: { enabled: true, host: 'beats.example.com' } } };
    expect(pathsOf(await render(helm, ingress))).toEqual([
      '"path":"/v1"',
      '"path":"/ping"',
      '"path":"/docs"',
    ]);
  });

  it('migrate knows where plans come from, as an init container and as a hook', async () => {
    const stripe = { billing: { source: 'stripe', stripe: { existingSecret: 'stripe' } } };
    const config = pick(await render(helm, stripe), 'ConfigMap', 'beatkeeper-config') as { data?: object };
    expect(config.data).toMatchObject({ BILLING_SOURCE: 'stripe' });
    const external = join(CHART, 'ci', 'external-database-values.yaml');
    const hook = pickPod(await render(helm, stripe, external), 'Job/beatkeeper-migrate').containers[0];
    expect(hook?.env).toContainEqual({ name: 'BILLING_SOURCE', value: 'stripe' });
  });

  it('a release with operator.watchNamespaces has permissions in those namespaces only, and none for definitions', async () => {
    const file = join(CHART, 'ci', 'namespaces-values.yaml');
    const manifests = await render(helm, {}, file);
    expect(manifests.filter(({ kind }) => /^(Cluster|Validating)/.test(kind))).toEqual([]);
    const reach = manifests
      .filter(({ kind, metadata }) => kind === 'Role' && metadata.name === 'beatkeeper-operator')
      .map(({ metadata }) => metadata.namespace);
    expect(reach).toEqual(['payments', 'shop']);
    expect(listRules(manifests).flatMap(({ resources }) => resources)).not.toContain(
      'customresourcedefinitions',
    );
  });

  it("the README's example of named namespaces gives no permission in the cluster as a whole", async () => {
    const blocks = [...readReadme().matchAll(/```yaml\n(.*?)```/gs)].map(([, block = '']) => block);
    const example: object = parse(blocks.find((block) => block.includes('watchNamespaces')) ?? '');
    const manifests = await render(helm, example);
    expect(manifests.filter(({ kind }) => /^(Cluster|Validating)/.test(kind))).toEqual([]);
    const roles = manifests.filter(
      ({ kind, rules }) => kind === 'Role' && /"secrets".*"get"/.test(JSON.stringify(rules)),
    );
    const namespaces = new Set(roles.map(({ metadata }) => metadata.namespace));
    expect(namespaces).toEqual(new Set(['payments', 'shop']));
  });

  it('a policy holds the operator to its own Secrets, by default where the release has rights in the whole cluster', async () => {
    const hasPolicy = async (operator: object) =>
      (await render(helm, { operator })).some(({ kind }) => kind.startsWith('ValidatingAdmissionPolicy'));
    expect(await hasPolicy({})).toBe(true);
    expect(await hasPolicy({ secretPolicy: 'never' })).toBe(false);
    expect(await hasPolicy({ watchNamespaces: ['shop'] })).toBe(false);
    expect(await hasPolicy({ watchNamespaces: ['shop'], secretPolicy: 'always' })).toBe(true);
  });

  it('no release contains the definitions, so that an uninstall keeps them', async () => {
    const manifests = await render(helm);
    expect(manifests.filter(({ kind }) => kind === 'CustomResourceDefinition')).toEqual([]);
  });
});

interface Rule {
  resources: string[];
  verbs: string[];
}

function listRules(manifests: Manifest[]): Rule[] {
  return manifests.flatMap(({ rules }) => (Array.isArray(rules) ? (rules as Rule[]) : []));
}

function anyOf(...words: string[]): unknown {
  return expect.stringMatching(new RegExp(`^(${words.map((word) => word.replace('*', '\\*')).join('|')})$`));
}

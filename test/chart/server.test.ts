// A real API server accepts everything that the chart renders: known fields only, valid values, restricted pods. And it
// refuses the operator's account what is not its own.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { readReadme } from '../../charts/render-readme.ts';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { controllerReference } from '../../src/kube/kube-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { MANAGED_BY_LABEL } from '../../src/operator/resources/names.ts';
import { startTestControlPlane, type TestControlPlane } from '../support/control-plane.ts';
import { runProgram, runRole } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  CHART,
  findProgram,
  listValuesFiles,
  type Manifest,
  NAMESPACE,
  RELEASE,
  readManifests,
  render,
  requireHelm,
} from './helm.ts';
import { listPods } from './pods.ts';

const helm = await requireHelm();
const kubectl = await findProgram('kubectl');

describe.skipIf(helm === undefined)('an API server', () => {
  let plane: TestControlPlane | undefined;

  beforeAll(async () => {
    plane = await startTestControlPlane();
    if (plane !== undefined && kubectl !== undefined) return;
    if (process.env.CI) throw new Error(HOW_TO_GET_A_CONTROL_PLANE);
    console.error(`No API server checks the chart. ${HOW_TO_GET_A_CONTROL_PLANE}`);
  }, 600_000);
  afterAll(async () => await plane?.stop());

  const apply = async (manifests: object[], ...more: string[]) => {
    const text = manifests.map((manifest) => stringify(manifest)).join('---\n');
    const target = ['--kubeconfig', plane?.kubeconfig ?? '', '--namespace', NAMESPACE];
    const { code, stderr } = await runProgram(
      kubectl ?? '',
      ['apply', ...target, '--server-side', '--validate=strict', ...more, '--filename', '-'],
      { input: text },
    );
    return { code, stderr };
  };
  const namespace = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: {
        'pod-security.kubernetes.io/enforce': 'restricted',
        'pod-security.kubernetes.io/warn': 'restricted',
      },
    },
  });

  it.for(listValuesFiles())('an API server accepts every object of %s', async (file, { skip }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    const manifests = await render(helm, {}, file);
    const names = new Set([NAMESPACE, ...manifests.map(({ metadata }) => metadata.namespace ?? NAMESPACE)]);
    expect(await apply([...names].map(namespace))).toEqual({ code: 0, stderr: '' });
    // A pod needs its service account; this cluster does not have the kinds of the Prometheus operator.
    const accounts = manifests.filter(({ kind }) => kind === 'ServiceAccount');
    expect(await apply(accounts)).toEqual({ code: 0, stderr: '' });
    for (const [target, group] of byNamespace(manifests.filter(isKnown))) {
      expect(await apply(group, '--dry-run=server', '--namespace', target)).toEqual({ code: 0, stderr: '' });
    }
  });

  it('an API server lets the operator write its own Secrets, and refuses it every other one', async ({
    skip,
  }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    expect(await apply([namespace(NAMESPACE)])).toEqual({ code: 0, stderr: '' });
    const isPartOfIt = ({ kind, metadata }: Manifest) =>
      metadata.labels?.['app.kubernetes.io/component'] === 'operator' && !/Deployment|Service/.test(kind);
    expect(await apply((await render(helm)).filter(isPartOfIt))).toEqual({ code: 0, stderr: '' });

    const run = async (user: string, verb: string, secret: object, ...more: string[]) => {
      const as = user === 'operator' ? [`--as=system:serviceaccount:${NAMESPACE}:beatkeeper-operator`] : [];
      const args = ['--kubeconfig', plane?.kubeconfig ?? '', ...as, verb, ...more, '--filename', '-'];
      const { code, stderr } = await runProgram(kubectl, args, { input: stringify(secret) });
      return code === 0 ? 'done' : stderr;
    };
    const monitor = {
      metadata: { name: 'backup', namespace: NAMESPACE, uid: '7b6f5a0e-0000-4000-8000-000000000001' },
    };
    const own = (name: string, metadata: object = {}, more: object = {}) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'Opaque',
      metadata: {
        name,
        namespace: NAMESPACE,
        labels: MANAGED_BY_LABEL,
        ownerReferences: [controllerReference(MONITORS, monitor)],
        ...metadata,
      },
      stringData: { url: 'https://example.com' },
      ...more,
    });
    const refusal = expect.stringContaining('may write only Opaque Secrets');
    const account = { 'kubernetes.io/service-account.name': 'default' };
    const token = own('token', { annotations: account }, { type: 'kubernetes.io/service-account-token' });
    await waitFor(async () => (await run('operator', 'create', token, '--dry-run=server')) !== 'done', {
      what: 'the policy is known to the API server',
    });

    for (const verb of ['create', 'replace', 'delete'])
      expect(await run('operator', verb, own('backup-beat')), verb).toBe('done');
    const other = { ...controllerReference(MONITORS, monitor), apiVersion: 'apps/v1', kind: 'Deployment' };
    for (const secret of [
      token,
      own('bare', { labels: {}, ownerReferences: [] }),
      own('unlabelled', { labels: {} }),
      own('labelled', { labels: { 'app.kubernetes.io/managed-by': 'Helm' } }),
      own('unowned', { ownerReferences: [] }),
      own('of-others', { ownerReferences: [other] }),
    ])
      expect(await run('operator', 'create', secret), secret.metadata.name).toEqual(refusal);

    for (const foreign of [
      own('foreign', { labels: {}, ownerReferences: [] }),
      own('foreign-labelled', { ownerReferences: [] }),
    ]) {
      expect(await run('administrator', 'create', foreign)).toBe('done');
      expect(await run('operator', 'replace', own(foreign.metadata.name))).toEqual(refusal);
      expect(await run('operator', 'delete', foreign)).toEqual(refusal);
      expect(await run('administrator', 'delete', foreign)).toBe('done');
    }

    // The label is for people: a Secret that lost it is still the operator's.
    expect(await run('administrator', 'create', own('worn', { labels: {} }))).toBe('done');
    expect(await run('operator', 'replace', own('worn'))).toBe('done');
    expect(await run('operator', 'replace', own('worn', { ownerReferences: [] }))).toEqual(refusal);
    expect(await run('operator', 'delete', own('worn'))).toBe('done');
  });

  it('the account of the Job creates the Secrets of the release, and can neither read nor change them nor create others', async ({
    skip,
  }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    const { kubeconfig } = plane;
    expect(await apply([namespace(NAMESPACE)])).toEqual({ code: 0, stderr: '' });
    const isPartOfIt = ({ kind, metadata }: Manifest) =>
      metadata.labels?.['app.kubernetes.io/component'] === 'secrets' && kind !== 'Job';
    expect(await apply((await render(helm)).filter(isPartOfIt))).toEqual({ code: 0, stderr: '' });
    const run = async (verb: string, ...more: string[]) => {
      const account = `system:serviceaccount:${NAMESPACE}:beatkeeper-secrets`;
      const args = ['--kubeconfig', kubeconfig, '--namespace', NAMESPACE, '--as', account, verb, ...more];
      const { code, stderr } = await runProgram(kubectl, args);
      return code === 0 ? 'done' : stderr;
    };
    const create = (name: string, ...more: string[]) => run('create', 'secret', 'generic', name, ...more);
    await waitFor(async () => (await create('other', '--dry-run=server')) !== 'done', {
      what: 'the policy is known to the API server',
    });
    expect(await create('beatkeeper-encryption')).toBe('done');
    const refusal = expect.stringContaining(
      'may create these alone: beatkeeper-encryption, beatkeeper-postgresql',
    );
    expect(await create('other')).toEqual(refusal);
    const type = '--type=kubernetes.io/service-account-token';
    expect(await create('beatkeeper-postgresql', type)).not.toBe('done');
    const forbidden = expect.stringContaining('forbidden');
    for (const verb of ['get', 'delete'])
      expect(await run(verb, 'secret', 'beatkeeper-encryption'), verb).toEqual(forbidden);
    expect(await run('get', 'secrets')).toEqual(forbidden);
    const patch = ['--type=merge', '--patch', '{"stringData":{"keys":"mine"}}'];
    expect(await run('patch', 'secret', 'beatkeeper-encryption', ...patch)).toEqual(forbidden);
    await runProgram(kubectl, [
      ...['--kubeconfig', kubeconfig, '--namespace', NAMESPACE],
      ...['delete', 'secret', 'beatkeeper-encryption'],
    ]);
  });

  it('a renderer that applies the chart twice, and then another version of it, keeps the key and the passwords', async ({
    skip,
  }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    const { kubeconfig } = plane;
    const target = ['--kubeconfig', kubeconfig, '--namespace', 'gitops'];
    expect(await apply([namespace('gitops')])).toEqual({ code: 0, stderr: '' });
    // This cluster runs no pods: what the Job would run, runs here, with the Job's own variables.
    const applyRelease = async (...values: string[]) => {
      const chart = ['template', RELEASE, CHART, '--no-hooks', '--namespace', 'gitops', ...values];
      const { stdout } = await runProgram(helm, chart);
      const applied = ['apply', '--kubeconfig', kubeconfig, '--filename', '-'];
      const { code, stderr } = await runProgram(kubectl, applied, { input: stdout });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const [container] = listPods(readManifests(stdout)).flatMap(({ containers }) =>
        containers.filter(({ args }) => args?.[0] === 'secrets'),
      );
      const env = Object.fromEntries(
        (container?.env ?? []).map(({ name, value = 'gitops' }) => [name, value]),
      );
      const ran = await runRole(['secrets'], { ...env, KUBECONFIG: kubeconfig });
      expect({ code: ran.code, stderr: ran.stderr }).toEqual({ code: 0, stderr: '' });
      const read = ['get', 'secret', 'beatkeeper-encryption', 'beatkeeper-postgresql'];
      const { stdout: secrets } = await runProgram(kubectl, [...read, ...target, '--output', 'json']);
      const { items } = JSON.parse(secrets) as { items: { metadata: object; data: object }[] };
      return items;
    };
    const first = await applyRelease();
    expect(first.map(({ data }) => Object.keys(data))).toEqual([
      ['keys'],
      ['application-password', 'owner-password'],
    ]);
    expect(await applyRelease()).toEqual(first);
    expect(await applyRelease('--set', 'image.tag=0.2.0')).toEqual(first);
  });

  it('a team with the role of the release in its namespace works with the Monitors there, and with nothing else', async ({
    skip,
  }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    const { kubeconfig } = plane;
    const roles = (await render(helm, { rbac: { aggregate: false } })).filter(({ metadata }) =>
      /-(view|edit)$/.test(metadata.name),
    );
    const apiGroup = 'rbac.authorization.k8s.io';
    const binding = {
      apiVersion: `${apiGroup}/v1`,
      kind: 'RoleBinding',
      metadata: { name: 'monitors', namespace: NAMESPACE },
      roleRef: { apiGroup, kind: 'ClusterRole', name: `${NAMESPACE}.beatkeeper-edit` },
      subjects: [{ apiGroup, kind: 'User', name: 'dana' }],
    };
    expect(await apply([namespace(NAMESPACE), ...roles, binding])).toEqual({ code: 0, stderr: '' });
    const may = async (verb: string, resource: string, where = NAMESPACE) => {
      const args = [
        '--kubeconfig',
        kubeconfig,
        '--namespace',
        where,
        '--as',
        'dana',
        'auth',
        'can-i',
        verb,
        resource,
      ];
      return (await runProgram(kubectl, args)).stdout.trim();
    };
    await waitFor(async () => (await may('patch', 'monitors.beatkeeper.dev')) === 'yes', {
      what: 'the binding is known to the API server',
    });
    for (const verb of ['create', 'delete', 'list'])
      expect(await may(verb, 'callbacks.beatkeeper.dev'), verb).toBe('yes');
    expect(await may('get', 'monitors.beatkeeper.dev', 'shop')).toBe('no');
    expect(await may('get', 'secrets')).toBe('no');
  });

  it('an API server accepts the examples of the README and of the notes after an install', async ({
    skip,
  }) => {
    if (helm === undefined || kubectl === undefined || plane === undefined) return skip('no API server');
    const { stdout: notes } = await runProgram(helm, [
      'install',
      RELEASE,
      CHART,
      '--dry-run=client',
      '--namespace',
      NAMESPACE,
    ]);
    const examples = [...findExamples(readReadme()), ...findExamples(notes)];
    expect(examples.map(({ kind }) => kind)).toEqual(['Callback', 'Monitor', 'Callback', 'Monitor']);
    for (const { metadata, ...rest } of examples) {
      const example = { ...rest, metadata: { ...metadata, namespace: NAMESPACE } };
      expect(await apply([example], '--dry-run=server')).toEqual({ code: 0, stderr: '' });
    }
  });
});

// The custom resources in a text: in YAML blocks, and between <<'YAML' and YAML.
function findExamples(text: string): Manifest[] {
  const blocks = text.matchAll(/(?:```yaml|<<'YAML')\n(.*?)\n *(?:```|YAML\n)/gs);
  return [...blocks].flatMap(([, block = '']) => {
    const indent = /^ */.exec(block)?.[0] ?? '';
    const plain = block.replaceAll(`\n${indent}`, '\n').slice(indent.length);
    return parseAllDocuments(plain)
      .map((document) => document.toJS() as Partial<Manifest>)
      .filter((object): object is Manifest => object.apiVersion === 'beatkeeper.dev/v1alpha1');
  });
}

function isKnown({ apiVersion }: Manifest): boolean {
  return !apiVersion.startsWith('monitoring.coreos.com/');
}

function byNamespace(manifests: Manifest[]): Map<string, Manifest[]> {
  return Map.groupBy(manifests, ({ metadata }) => metadata.namespace ?? NAMESPACE);
}

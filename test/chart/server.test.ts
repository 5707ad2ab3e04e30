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
import { runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  CHART,
  findProgram,
  listValuesFiles,
  type Manifest,
  NAMESPACE,
  RELEASE,
  render,
  requireHelm,
} from './helm.ts';

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
    expect(examples.map(({ kind }) => kind)).toEqual(['Callback', 'Monitor', 'Monitor']);
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

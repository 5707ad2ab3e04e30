// A real API server accepts everything that the chart renders: known fields only, valid values, restricted pods.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { readReadme } from '../../charts/render-readme.ts';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { startTestControlPlane, type TestControlPlane } from '../support/control-plane.ts';
import { runProgram } from '../support/run-program.ts';
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

// Names that users choose: releases, overrides, Secrets. If helm accepts a name, a cluster accepts the objects.
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { releaseOf } from '../../src/contract/crd/custom-resources.ts';
import { runProgram } from '../support/run-program.ts';
import { CHART, type Manifest, NAMESPACE, requireHelm, template } from './helm.ts';

const found = await requireHelm();
const helm = found ?? '';

async function renderAs(release: string, ...more: string[]): Promise<Manifest[]> {
  const args = ['template', release, CHART, '--namespace', NAMESPACE, ...more];
  const { code, stdout, stderr } = await runProgram(helm, args);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
}
const namesOf = (manifests: Manifest[], kind: string) =>
  manifests.filter((manifest) => manifest.kind === kind).map(({ metadata }) => metadata.name);

describe.skipIf(found === undefined)('the objects of a release', () => {
  it.each([
    ['prod', []],
    ['a'.repeat(53), []],
    ['my.release', []],
    ['a-very-long-release-name-cut.at.a.dot.or-dash-x', []],
    ['true', []],
    ['123', ['--set', 'fullnameOverride=beats']],
    ['prod', ['--set', `nameOverride=${'n'.repeat(80)}`]],
    ['prod', ['--set', 'fullnameOverride=a.b']],
  ])('a release has names and labels that a cluster accepts: %s %j', async (release, more) => {
    const manifests = await renderAs(release, ...more);
    for (const name of namesOf(manifests, 'Service')) expect(name).toMatch(/^[a-z][-a-z0-9]{0,61}[a-z0-9]$/);
    for (const { metadata } of manifests) {
      expect(metadata.name.split('.').at(-1)?.length).toBeLessThanOrEqual(63);
      for (const value of Object.values(metadata.labels ?? {})) expect(value).toEqual(expect.any(String));
    }
    expect(manifests.find(({ kind }) => kind === 'Deployment')?.metadata.labels).toMatchObject({
      'app.kubernetes.io/instance': release,
    });
  });

  it('objects of two long release names, or of two namespaces, have different names', async () => {
    const [one, two] = [await renderAs(`${'a'.repeat(50)}-1`), await renderAs(`${'a'.repeat(50)}-2`)];
    expect(namesOf(one, 'Service').filter((name) => namesOf(two, 'Service').includes(name))).toEqual([]);
    const inner = await renderAs('beatkeeper', '--namespace', 'a-b');
    const outer = await renderAs('b-beatkeeper', '--namespace', 'a');
    const shared = namesOf(outer, 'ClusterRole').filter((name) =>
      namesOf(inner, 'ClusterRole').includes(name),
    );
    expect(shared).toEqual([]);
  });

  it('the operator and the hook of an uninstall know the release by one name', async () => {
    const manifests = await renderAs('prod');
    const read = (kind: string, name: RegExp, variable: string) => {
      const found = manifests.find((one) => one.kind === kind && name.test(one.metadata.name));
      return new RegExp(`"name":"${variable}","value":"([^"]*)"`).exec(JSON.stringify(found))?.[1] ?? '';
    };
    const names = [
      read('Deployment', /-operator$/, 'BEATKEEPER_LEASE_NAME'),
      read('Job', /finalizers/, 'BEATKEEPER_OPERATOR_DEPLOYMENT'),
    ];
    const releases = names.map((name) => releaseOf({ namespace: NAMESPACE, name }));
    expect(releases).toEqual([`${NAMESPACE}/prod-beatkeeper`, `${NAMESPACE}/prod-beatkeeper`]);
  });

  it('a value that looks like a number stays text in the objects', async () => {
    const { stdout, stderr } = await template(helm, {
      priorityClassName: '100',
      encryption: { existingSecret: '11' },
      postgresql: { enabled: false },
      database: { existingSecret: '22', existingSecretKey: '33', applicationRole: '34', caSecret: '44' },
      migrations: { mode: 'job', existingSecret: '55', existingSecretKey: '66' },
      jurisdictions: {
        eu: {
          existingSecret: '88',
          existingSecretKey: '99',
          applicationRole: '111',
          migrations: { existingSecret: '222', existingSecretKey: '333' },
        },
      },
      api: { ingress: { enabled: true, host: 'a.example.com', className: '1', tlsSecret: '2' } },
      operator: { watchNamespaces: ['77'] },
    });
    expect(stderr).toBe('');
    const manifests: Manifest[] = parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
    const numbers: unknown[] = [];
    JSON.stringify(manifests, (key, value: unknown) => {
      const isText = [
        'name',
        'key',
        'namespace',
        'secretName',
        'priorityClassName',
        'ingressClassName',
        'value',
      ];
      if (isText.includes(key) && typeof value !== 'string' && typeof value !== 'object') numbers.push(key);
      return value;
    });
    expect(numbers).toEqual([]);
  });

  it('helm refuses a release name that no Service can have, and a label that the chart sets', async () => {
    const digit = await runProgram(helm, ['template', '1st', CHART]);
    expect(digit.stderr).toContain('set fullnameOverride');
    const label = await template(helm, { commonLabels: { 'app.kubernetes.io/name': 'mine' } });
    expect(label.stderr).toContain('commonLabels.app.kubernetes.io/name');
    const pods = await template(helm, { sweeper: { podLabels: { 'app.kubernetes.io/component': 'api' } } });
    expect(pods.stderr).toContain('sweeper.podLabels.app.kubernetes.io/component');
  });
});

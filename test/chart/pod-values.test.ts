// What users set on pods and accounts, and what the platform sets: users and groups on OpenShift.

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { runProgram } from '../support/run-program.ts';
import {
  CHART,
  type Manifest,
  NAMESPACE,
  pick,
  RELEASE,
  readManifests,
  render,
  requireHelm,
} from './helm.ts';
import { listPods, pickPod } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';
const ROLES = ['api', 'sweeper', 'operator'];
const componentOf = (labels: Record<string, string>) => labels['app.kubernetes.io/component'];

describe.skipIf(found === undefined)('users and groups of pods', () => {
  const IDS = ['runAsUser', 'runAsGroup', 'fsGroup', 'fsGroupChangePolicy'];
  const renderFor = async (values: object, ...more: string[]): Promise<Manifest[]> => {
    const args = ['template', RELEASE, CHART, '--namespace', NAMESPACE, '--values', '-', ...more];
    const { stdout } = await runProgram(helm, args, { input: stringify(values) });
    return readManifests(stdout);
  };
  const OPENSHIFT = ['--api-versions', 'security.openshift.io/v1'];

  it('every pod has fixed ids on a plain cluster, and none where OpenShift gives them', async () => {
    const plain = listPods(await renderFor({}));
    const given = listPods(await renderFor({}, ...OPENSHIFT));
    expect(given.map(({ owner }) => owner).length).toBeGreaterThan(6);
    for (const { owner, spec } of plain)
      expect(Object.keys(spec.securityContext), owner).toEqual(expect.arrayContaining(IDS));
    for (const { owner, spec, containers } of given) {
      expect(spec.securityContext, owner).toEqual({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const { name, securityContext } of containers)
        expect(securityContext, `${owner} ${name}`).not.toHaveProperty('runAsUser');
    }
  });

  it('a value decides where the renderer does not know the cluster', async () => {
    const idOf = async (openshift: string, ...more: string[]) =>
      pickPod(await renderFor({ openshift }, ...more), 'StatefulSet/beatkeeper-postgresql').spec
        .securityContext.runAsUser;
    expect(await idOf('always')).toBeUndefined();
    expect(await idOf('never', ...OPENSHIFT)).toBe(999);
  });

  it('fields of the values go over those of the chart, and leave the others as they are', async () => {
    const values = {
      podSecurityContext: { runAsUser: 1_000_650_000, fsGroup: 5 },
      securityContext: { readOnlyRootFilesystem: false },
    };
    const manifests = await render(helm, { api: values, postgresql: values });
    for (const owner of ['Deployment/beatkeeper-api', 'StatefulSet/beatkeeper-postgresql']) {
      const { spec, containers } = pickPod(manifests, owner);
      expect(spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1_000_650_000,
        fsGroup: 5,
      });
      for (const { securityContext } of containers)
        expect(securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: false,
        });
    }
    const { spec } = pickPod(manifests, 'Deployment/beatkeeper-sweeper');
    expect(spec.securityContext).toMatchObject({ runAsUser: 1000 });
  });
});

describe.skipIf(found === undefined)('values of pods and accounts', () => {
  const everything = join(CHART, 'ci', 'everything-values.yaml');
  const NAME = 'beatkeeper-beats';

  it('labels and annotations of the values are on every pod, beside the labels that select it', async () => {
    const pods = listPods(await render(helm, {}, everything));
    expect(pods.length).toBeGreaterThan(5);
    for (const { owner, labels, annotations } of pods) {
      const isDatabase = componentOf(labels) === 'postgresql';
      expect(labels, owner).toMatchObject({ 'example.com/mesh': isDatabase ? 'outside' : 'inside' });
      expect(labels, owner).toHaveProperty(['app.kubernetes.io/instance'], RELEASE);
      expect(annotations, owner).toMatchObject(
        isDatabase ? { 'example.com/backup': 'true' } : { 'example.com/scrape': 'false' },
      );
    }
  });

  it('null removes what a value has by default, and is no fault', async () => {
    const none = { podLabels: null, podAnnotations: null, podSecurityContext: null, securityContext: null };
    const role = { ...none, serviceAccount: null, extraVolumes: null, extraVolumeMounts: null };
    const values = { api: role, sweeper: role, operator: role, postgresql: none };
    expect(await render(helm, values)).toEqual(await render(helm));
  });

  it.each(ROLES)('volumes of the values are mounted in the container of %s', async (role) => {
    const { spec } = pickPod(await render(helm, {}, everything), `Deployment/${NAME}-${role}`);
    expect(spec.volumes).toContainEqual({ name: 'authorities', configMap: { name: 'authorities' } });
    expect(spec.containers[0]?.volumeMounts).toContainEqual({
      name: 'authorities',
      mountPath: '/etc/authorities',
      readOnly: true,
    });
  });

  it.each(ROLES)('the service account of %s has the annotations of the values', async (role) => {
    const manifests = await render(helm, {}, everything);
    expect(pick(manifests, 'ServiceAccount', `${NAME}-${role}`).metadata.annotations).toEqual({
      'example.com/identity': 'beatkeeper',
    });
    const plain = pick(await render(helm), 'ServiceAccount', `beatkeeper-${role}`);
    expect(plain.metadata.annotations).toBeUndefined();
  });
});

describe.skipIf(found === undefined)('roles for people', () => {
  const rolesOf = async (values: object) =>
    (await render(helm, values)).filter(
      ({ kind, metadata }) => /Role$/.test(kind) && /-(view|edit)$/.test(metadata.name),
    );
  const aggregationOf = ({ metadata }: Manifest) =>
    Object.keys(metadata.labels ?? {}).filter((label) => label.includes('aggregate'));

  it("a release has roles to bind in a team's namespace, also where it adds nothing to the cluster's own", async () => {
    const added = await rolesOf({});
    expect(added.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      `ClusterRole ${NAMESPACE}.beatkeeper-edit`,
      `ClusterRole ${NAMESPACE}.beatkeeper-view`,
    ]);
    expect(added.map((role) => aggregationOf(role).length)).toEqual([2, 3]);
    const alone = await rolesOf({ rbac: { aggregate: false } });
    expect(alone.map(({ kind, metadata, rules }) => ({ kind, name: metadata.name, rules }))).toEqual(
      added.map(({ kind, metadata, rules }) => ({ kind, name: metadata.name, rules })),
    );
    expect(alone.flatMap(aggregationOf)).toEqual([]);
  });

  it('a release that touches nothing of the cluster has these roles in each of its namespaces', async () => {
    const operator = { watchNamespaces: ['payments', 'shop'] };
    const roles = await rolesOf({ rbac: { aggregate: false }, operator });
    expect(roles.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`)).toEqual([
      'Role payments/beatkeeper-edit',
      'Role payments/beatkeeper-view',
      'Role shop/beatkeeper-edit',
      'Role shop/beatkeeper-view',
    ]);
  });
});

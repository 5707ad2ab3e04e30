// Databases of jurisdictions: which pods have the URL of which role, and that they may reach them.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHART, type Manifest, render, requireHelm } from './helm.ts';
import { type Container, listPods, pickPod } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';

const EU = {
  existingSecret: 'beats-eu',
  applicationRole: 'rows',
  migrations: { existingSecret: 'beats-eu', existingSecretKey: 'owner-url' },
};

const envOf = (container: Container | undefined) =>
  Object.fromEntries(
    (container?.env ?? [])
      .filter(({ name }) => name.startsWith('JURISDICTION_'))
      .map(({ name, value, valueFrom }) => [name, value ?? valueFrom?.secretKeyRef]),
  );

const ofRows = {
  JURISDICTION_EU_DATABASE_URL: { name: 'beats-eu', key: 'url' },
  JURISDICTION_US_DATABASE_URL: { name: 'beats-us', key: 'rows-url' },
};
const ofOwners = {
  JURISDICTION_EU_DATABASE_URL: { name: 'beats-eu', key: 'owner-url' },
  JURISDICTION_EU_DATABASE_APPLICATION_ROLE: 'rows',
  JURISDICTION_US_DATABASE_URL: { name: 'beats-us', key: 'rows-url' },
};
const jurisdictions = { eu: EU, us: { existingSecret: 'beats-us', existingSecretKey: 'rows-url' } };

describe.skipIf(found === undefined)('databases of jurisdictions', () => {
  it('api, sweeper and migrate have their URLs, migrate those of the owners, and no other pod has any', async () => {
    const manifests = await render(helm, { jurisdictions });
    for (const role of ['api', 'sweeper']) {
      const { initContainers, containers } = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec;
      expect(envOf(initContainers?.[0])).toEqual(ofOwners);
      expect(envOf(containers[0])).toEqual(ofRows);
    }
    const others = listPods(manifests).filter(({ owner }) => !/-(api|sweeper)$/.test(owner));
    expect(others.length).toBeGreaterThan(3);
    for (const { owner, containers } of others)
      for (const container of containers) expect(envOf(container), owner).toEqual({});
  });

  it('the hook that migrates has them too', async () => {
    const file = join(CHART, 'ci', 'external-database-values.yaml');
    const manifests = await render(helm, { jurisdictions }, file);
    const [migrate] = pickPod(manifests, 'Job/beatkeeper-migrate').containers;
    expect(envOf(migrate)).toEqual(ofOwners);
  });

  it('there are none by default, and one more restarts api and sweeper alone', async () => {
    const [none, one] = await Promise.all([render(helm), render(helm, { jurisdictions: { eu: EU } })]);
    expect(JSON.stringify(none)).not.toContain('JURISDICTION_');
    const pods = (manifests: Manifest[]) =>
      new Map(listPods(manifests).map((pod) => [pod.owner, JSON.stringify(pod)]));
    const before = pods(none);
    const changed = [...pods(one)]
      .filter(([owner, pod]) => before.get(owner) !== pod)
      .map(([owner]) => owner);
    expect(changed.sort()).toEqual(['Deployment/beatkeeper-api', 'Deployment/beatkeeper-sweeper']);
  });

  it('policies of egress let api, sweeper and migrate reach them beside the bundled database', async () => {
    const egress = { enabled: true, apiServer: ['10.0.0.2/32'], database: ['10.1.0.5/32'] };
    const manifests = await render(helm, { jurisdictions, networkPolicy: { egress } });
    const reaching = (words: string) =>
      manifests
        .filter(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name.endsWith('-egress'))
        .filter(({ spec }) => JSON.stringify(spec).includes(words))
        .map(({ metadata }) => metadata.name.split('-').at(-2));
    const roles = ['api', 'migrate', 'sweeper'];
    expect(reaching('{"cidr":"10.1.0.5/32"}').sort()).toEqual(roles);
    expect(reaching('"app.kubernetes.io/component":"postgresql"').sort()).toEqual(roles);
  });
});

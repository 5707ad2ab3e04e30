// Which role and which URL the pods have for the bundled Postgres and for an external database, and who migrates it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHART, pick, render, requireHelm } from './helm.ts';
import { type Container, pickPod } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';

describe.skipIf(found === undefined)('the database', () => {
  const envOf = (container: Container | undefined) =>
    Object.fromEntries(
      (container?.env ?? []).map(({ name, value, valueFrom }) => [name, value ?? valueFrom?.secretKeyRef]),
    );

  it('only migrate has the role that owns the bundled database; api and sweeper have one that changes rows', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper']) {
      const { initContainers, containers } = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec;
      expect(envOf(initContainers?.[0])).toMatchObject({
        DATABASE_URL: expect.stringMatching(/^postgresql:\/\/beatkeeper:\$\(POSTGRES_PASSWORD\)@/),
        POSTGRES_PASSWORD: { name: 'beatkeeper-postgresql', key: 'owner-password' },
        DATABASE_APPLICATION_ROLE: 'beatkeeper_application',
      });
      expect(envOf(containers[0])).toMatchObject({
        DATABASE_URL: expect.stringMatching(
          /^postgresql:\/\/beatkeeper_application:\$\(POSTGRES_PASSWORD\)@/,
        ),
        POSTGRES_PASSWORD: { name: 'beatkeeper-postgresql', key: 'application-password' },
      });
      expect(JSON.stringify(containers)).not.toContain('owner-password');
    }
  });

  it("a change of the script that makes the roles does not restart the database, which runs the release's own", async () => {
    const manifests = await render(helm);
    const { volumes, containers } = pickPod(manifests, 'StatefulSet/beatkeeper-postgresql').spec;
    expect(containers[0]).toMatchObject({
      lifecycle: { postStart: { exec: { command: ['bash', '/etc/beatkeeper/roles.sh'] } } },
    });
    expect(volumes).toContainEqual({ name: 'roles', configMap: { name: 'beatkeeper-postgresql' } });
    const { data } = pick(manifests, 'ConfigMap', 'beatkeeper-postgresql') as {
      data?: Record<string, string>;
    };
    expect(data).toEqual({ 'roles.sh': readFileSync(join(CHART, 'files', 'postgresql-roles.sh'), 'utf8') });
  });

  it('an init container of api and sweeper migrates the database', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper']) {
      const { initContainers } = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec;
      expect(initContainers).toMatchObject([{ args: ['migrate'] }]);
    }
  });

  it("a hook with the owner's URL migrates an external database", async () => {
    const manifests = await render(helm, {}, join(CHART, 'ci', 'external-database-values.yaml'));
    expect(manifests.filter(({ kind }) => kind === 'StatefulSet')).toEqual([]);
    expect(pickPod(manifests, 'Deployment/beatkeeper-api').spec.initContainers).toBeUndefined();
    expect(pick(manifests, 'Job', 'beatkeeper-migrate').metadata.annotations).toMatchObject({
      'helm.sh/hook': 'pre-install,pre-upgrade',
    });
    const [migrate] = pickPod(manifests, 'Job/beatkeeper-migrate').containers;
    expect(envOf(migrate)).toMatchObject({
      DATABASE_URL: { name: 'beatkeeper-database-owner', key: 'url' },
      DATABASE_APPLICATION_ROLE: 'beatkeeper-rows',
    });
    const [api] = pickPod(manifests, 'Deployment/beatkeeper-api').containers;
    expect(envOf(api)).toMatchObject({ DATABASE_URL: { name: 'beatkeeper-database', key: 'DATABASE_URL' } });
  });

  it('of the Jobs of hooks only migrate has the authority of the database, whose Secret may be missing', async () => {
    const file = join(CHART, 'ci', 'external-database-values.yaml');
    const manifests = await render(helm, {}, file);
    const hasAuthority = (name: string) =>
      JSON.stringify(pickPod(manifests, `Job/beatkeeper-${name}`).spec).includes('"database-ca"');
    expect(['migrate', 'crds', 'finalizers'].filter(hasAuthority)).toEqual(['migrate']);
  });

  it("an init container too migrates an external database with the owner's URL, and with one role nothing is granted", async () => {
    const external = { postgresql: { enabled: false }, database: { existingSecret: 'mine' } };
    const initOf = async (values: object) => {
      const manifests = await render(helm, { ...external, ...values });
      return envOf(pickPod(manifests, 'Deployment/beatkeeper-sweeper').spec.initContainers?.[0]);
    };
    const one = await initOf({});
    expect(one).toMatchObject({ DATABASE_URL: { name: 'mine', key: 'url' } });
    expect(one).not.toHaveProperty('DATABASE_APPLICATION_ROLE');
    const two = await initOf({
      database: { ...external.database, applicationRole: 'rows' },
      migrations: { existingSecret: 'mine', existingSecretKey: 'owner-url' },
    });
    expect(two).toMatchObject({
      DATABASE_URL: { name: 'mine', key: 'owner-url' },
      DATABASE_APPLICATION_ROLE: 'rows',
    });
  });

  it('every role that opens the database knows which engine it has, and the bundled Postgres has one', async () => {
    const external = {
      postgresql: { enabled: false },
      database: { existingSecret: 'mine', engine: 'citus' },
    };
    const manifests = await render(helm, external);
    for (const role of ['api', 'sweeper']) {
      const { initContainers, containers } = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec;
      for (const container of [initContainers?.[0], containers[0]])
        expect(envOf(container)).toMatchObject({ BEATKEEPER_DATABASE_ENGINE: 'citus' });
    }
    await expect(render(helm, { database: { engine: 'citus' } })).rejects.toThrow(
      'database.engine is not postgres',
    );
  });
});

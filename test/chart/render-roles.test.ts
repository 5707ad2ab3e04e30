// What the roles of the chart are given: commands, probes, tokens, settings.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { issuers as issuersSchema } from '../../src/config/issuers.ts';
import { plans as plansSchema } from '../../src/config/plans.ts';
import { sharedProjects } from '../../src/config/shared-projects.ts';
import { CHECK_LIMIT_MS } from '../../src/telemetry/readiness.ts';
import { SHUTDOWN_LIMIT_MS } from '../../src/telemetry/run-until-signal.ts';
import { CHART, listWays, type Manifest, NAMESPACE, pick, render, requireHelm } from './helm.ts';
import { pickPod, variable } from './pods.ts';

const found = await requireHelm();
const helm = found ?? '';
const ways = listWays();

describe.skipIf(found === undefined)('the roles', () => {
  it('every role runs its command of the image, with probes', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper', 'operator']) {
      const [container] = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec.containers;
      expect(container).toMatchObject({
        image: 'beatkeeper:0.1.0',
        args: [role],
        livenessProbe: { httpGet: { path: '/livez', port: 'health' } },
        readinessProbe: { httpGet: { path: '/readyz', port: 'health' } },
      });
    }
  });

  it('the probe of a start waits, so that an install makes no Warning, and the kubelet waits longer for it', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper', 'operator']) {
      const [container] = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec.containers;
      const { exec, timeoutSeconds = 1 } = container?.startupProbe ?? {};
      const [program, script = '', seconds] = exec?.command ?? [];
      expect([program, existsSync(join(CHART, '../..', script))], role).toEqual(['node', true]);
      expect(timeoutSeconds, role).toBeGreaterThan(Number(seconds) + 2);
      expect(container?.env, role).toContainEqual({ name: 'BEATKEEPER_HEALTH_PORT', value: '8081' });
    }
    const [database] = pickPod(manifests, 'StatefulSet/beatkeeper-postgresql').spec.containers;
    expect(database?.startupProbe?.exec?.command.join(' ')).toContain('until pg_isready');
  });

  it('the kubelet waits longer for an answer of readiness than a check may take, so that the log names the check', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper', 'operator']) {
      const [container] = pickPod(manifests, `Deployment/beatkeeper-${role}`).spec.containers;
      expect((container?.readinessProbe?.timeoutSeconds ?? 1) * 1_000, role).toBeGreaterThan(CHECK_LIMIT_MS);
    }
  });

  it('the kubelet waits longer for the end of a role than the role takes at most', async () => {
    const manifests = await render(helm);
    for (const role of ['api', 'sweeper', 'operator']) {
      const { spec } = pickPod(manifests, `Deployment/beatkeeper-${role}`);
      const beforeMs = (spec.containers[0]?.lifecycle?.preStop?.sleep?.seconds ?? 0) * 1_000;
      const graceMs = (spec.terminationGracePeriodSeconds ?? 0) * 1_000;
      expect(graceMs, role).toBeGreaterThan(beforeMs + SHUTDOWN_LIMIT_MS);
    }
  });

  it('an api pod stops only after its traffic has ended', async () => {
    const { spec } = pickPod(await render(helm), 'Deployment/beatkeeper-api');
    expect(spec.terminationGracePeriodSeconds).toBe(30);
    expect(spec.containers[0]?.lifecycle?.preStop?.sleep?.seconds).toBe(3);
    const { strategy } = (pick(await render(helm), 'Deployment', 'beatkeeper-api').spec ?? {}) as {
      strategy?: object;
    };
    expect(strategy).toEqual({ rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } });
  });

  it('api accepts tokens of the cluster, whose service accounts stand for the roles', async () => {
    const { data } = pick(await render(helm), 'ConfigMap', 'beatkeeper-config');
    const { BEATKEEPER_ISSUERS, ...rest } = data as Record<string, string | undefined>;
    expect(JSON.parse(BEATKEEPER_ISSUERS ?? '')).toEqual([
      {
        audience: 'beatkeeper',
        jwksUri: 'https://kubernetes.default.svc/openid/v1/jwks',
        caFile: '/var/run/secrets/beatkeeper/cluster/ca.crt',
        tokenFile: '/var/run/secrets/beatkeeper/cluster/token',
        organization: 'default',
        roles: {
          'system:serviceaccount:monitoring:beatkeeper-owner': 'owner',
          'system:serviceaccount:monitoring:beatkeeper-member': 'member',
          'system:serviceaccount:monitoring:beatkeeper-viewer': 'viewer',
          'system:serviceaccount:monitoring:beatkeeper-operator': 'operator',
          'system:serviceaccount:monitoring:beatkeeper-test': 'viewer',
        },
      },
    ]);
    expect(rest).toMatchObject({ BEATKEEPER_PUBLIC_URL: 'http://beatkeeper-api.monitoring.svc' });
  });

  it('what the values change of the plans is the setting of api and sweeper', async () => {
    const plans = {
      free: {
        active_monitors: 50,
        stored_observations: 2_000_000,
        detector_feature: ['minimum', 'sustained'],
      },
    };
    const settingOf = async (values: object) => {
      const { data } = pick(await render(helm, values), 'ConfigMap', 'beatkeeper-config') as {
        data?: Record<string, string>;
      };
      return data?.BEATKEEPER_PLANS;
    };
    expect(await plansSchema.parseAsync(await settingOf({ plans }))).toEqual({
      free: { activeMonitors: 50, storedObservations: 2_000_000, detectorFeatures: ['minimum', 'sustained'] },
    });
    expect(await settingOf({})).toBeUndefined();
  });

  it("api reads the cluster's issuer from its own token, and auth.clusterIssuer overrides it", async () => {
    const issuerOf = async (values: object) => {
      const { data } = pick(await render(helm, values), 'ConfigMap', 'beatkeeper-config') as {
        data?: Record<string, string>;
      };
      return (await issuersSchema.parseAsync(data?.BEATKEEPER_ISSUERS))[0];
    };
    const { spec } = pickPod(await render(helm), 'Deployment/beatkeeper-api');
    const mounted = spec.volumes?.find(({ name }) => name === 'cluster')?.projected?.sources;
    // Of the API server's own audience, whatever that is in this cluster.
    expect(mounted).toContainEqual({ serviceAccountToken: { path: 'token', expirationSeconds: 3600 } });
    const mount = spec.containers[0]?.volumeMounts?.find(({ name }) => name === 'cluster')?.mountPath;
    const { issuer, tokenFile } = (await issuerOf({})) ?? {};
    expect([issuer, tokenFile]).toEqual([undefined, `${mount}/token`]);
    const override = 'https://container.googleapis.com/v1/projects/p/locations/l/clusters/c';
    expect((await issuerOf({ auth: { clusterIssuer: override } }))?.issuer).toBe(override);
  });

  it('api may create TokenReviews and does nothing else in the cluster, if tokens are to end with their account', async () => {
    const forApi = async (values: object) => {
      const manifests = await render(helm, values);
      const isForApi = ({ metadata }: Manifest) =>
        metadata.labels?.['app.kubernetes.io/component'] === 'api' && metadata.name.includes('token-reviews');
      const { data } = pick(manifests, 'ConfigMap', 'beatkeeper-config') as { data?: Record<string, string> };
      const issuers = await issuersSchema.parseAsync(data?.BEATKEEPER_ISSUERS);
      return { objects: manifests.filter(isForApi), uri: issuers[0]?.tokenReviewUri };
    };
    expect(await forApi({})).toEqual({ objects: [], uri: undefined });
    const { objects, uri } = await forApi({ auth: { tokenReview: { enabled: true } } });
    expect(uri).toBe('https://kubernetes.default.svc/apis/authentication.k8s.io/v1/tokenreviews');
    expect(objects).toMatchObject([
      {
        kind: 'ClusterRole',
        rules: [{ apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] }],
      },
      {
        kind: 'ClusterRoleBinding',
        subjects: [{ kind: 'ServiceAccount', name: 'beatkeeper-api', namespace: NAMESPACE }],
      },
    ]);
  });

  it.each(ways)('api can read the issuers of the values: %s', async (_, file) => {
    const manifests = await render(helm, {}, file);
    const { data } = manifests.find(
      ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name.endsWith('-config'),
    ) as {
      data?: Record<string, string>;
    };
    expect(issuersSchema.safeParse(data?.BEATKEEPER_ISSUERS).error).toBeUndefined();
  });

  it('the operator reads the shared projects of the values', async () => {
    const shared = [{ project: 'Web "Shop"', namespaces: ['shop-*'] }];
    const read = async (values: object) => {
      const { env = [] } =
        pickPod(await render(helm, values), 'Deployment/beatkeeper-operator').containers[0] ?? {};
      const value = env.find(({ name }) => name === 'BEATKEEPER_SHARED_PROJECTS')?.value;
      return await sharedProjects.parseAsync(value);
    };
    expect(await read({})).toEqual([]);
    expect(await read({ operator: { sharedProjects: shared } })).toEqual(shared);
  });

  it('the operator sees workloads as the values say, and has no rights to what it does not look at', async () => {
    const read = async (operator: object) => {
      const manifests = await render(helm, { operator });
      const { env = [] } = pickPod(manifests, 'Deployment/beatkeeper-operator').containers[0] ?? {};
      const value = (name: string) => env.find((one) => one.name === name)?.value;
      const rules = manifests.flatMap(({ kind, metadata, rules: some = [] }) =>
        kind === 'ClusterRole' && metadata.name.endsWith('-operator')
          ? (some as { resources: string[] }[])
          : [],
      );
      const resources = new Set(rules.flatMap((rule) => rule.resources));
      const known = ['cronjobs', 'jobs', 'pods', 'pods/log', 'deployments', 'resourcequotas', 'nodes'];
      const seen = known.filter((name) => resources.has(name));
      return { workloads: value('BEATKEEPER_WORKLOADS'), logs: value('BEATKEEPER_WORKLOAD_LOGS'), seen };
    };
    const all = ['cronjobs', 'jobs', 'pods', 'deployments', 'resourcequotas', 'nodes'];
    expect(await read({})).toEqual({ workloads: 'true', logs: 'false', seen: all });
    expect(await read({ logs: { enabled: true } })).toEqual({
      ...{ workloads: 'true', logs: 'true' },
      seen: all.toSpliced(3, 0, 'pods/log'),
    });
    const off = { workloads: 'false', logs: 'false', seen: [] };
    expect(await read({ workloads: { enabled: false }, logs: { enabled: true } })).toEqual(off);
  });

  it('the operator of single namespaces sees quotas there, and no nodes', async () => {
    const manifests = await render(helm, { operator: { watchNamespaces: ['shop'] } });
    const roles = manifests.filter(
      ({ kind, metadata }) => /Role$/.test(kind) && metadata.name.endsWith('-operator'),
    );
    expect(roles.map(({ kind, metadata }) => [kind, metadata.namespace])).toEqual([['Role', 'shop']]);
    const resources = roles.flatMap(({ rules = [] }) =>
      (rules as { resources: string[] }[]).flatMap((rule) => rule.resources),
    );
    expect(resources).toContain('resourcequotas');
    expect(resources).not.toContain('nodes');
  });

  it('the operator has a token for the audience beatkeeper and no access to the database', async () => {
    const { spec } = pickPod(await render(helm), 'Deployment/beatkeeper-operator');
    const sources = spec.volumes?.find(({ name }) => name === 'session')?.projected?.sources;
    expect(sources).toEqual([
      { serviceAccountToken: { path: 'token', audience: 'beatkeeper', expirationSeconds: 3600 } },
    ]);
    const [container] = spec.containers;
    expect(variable(container, 'BEATKEEPER_API_URL')).toBe('http://beatkeeper-api.monitoring.svc');
    expect(variable(container, 'BEATKEEPER_DEFAULT_CALLBACK_NAMESPACES')).toBe(NAMESPACE);
    expect(container?.env?.map(({ name }) => name)).not.toContain('DATABASE_URL');
    expect(container?.envFrom).toBeUndefined();
  });

  it('api and sweeper restart after a change of the configuration, and the database does not', async () => {
    const sums = async (values: object) => {
      const manifests = await render(helm, values);
      return ['api', 'sweeper'].map(
        (role) => pickPod(manifests, `Deployment/beatkeeper-${role}`).annotations['checksum/config'],
      );
    };
    const before = await sums({});
    expect(await sums({ api: { replicas: 5 } })).toEqual(before);
    const after = await sums({ callbacks: { allowedPrivateDestinations: ['10.0.0.0/8'] } });
    for (const [index, sum] of after.entries()) expect(sum).not.toBe(before[index]);
    const database = pickPod(
      await render(helm, { commonLabels: { team: 'a' } }),
      'StatefulSet/beatkeeper-postgresql',
    );
    expect(database).toEqual(pickPod(await render(helm), 'StatefulSet/beatkeeper-postgresql'));
  });

  it('api and sweeper know the relay, its token by reference alone; without one they have no setting of it', async () => {
    const relay = {
      url: 'https://push.example.com',
      existingSecret: 'relay',
      notifiers: ['phones', 'desks'],
    };
    const settingsOf = (manifests: Awaited<ReturnType<typeof render>>) =>
      JSON.stringify(pick(manifests, 'ConfigMap', 'beatkeeper-config'));
    const manifests = await render(helm, { relay });
    expect(settingsOf(manifests)).toContain('"RELAY_URL":"https://push.example.com"');
    expect(settingsOf(manifests)).toContain('"RELAY_NOTIFIERS":"phones,desks"');
    const envOf = (role: string, of: typeof manifests) =>
      pickPod(of, `Deployment/beatkeeper-${role}`).spec.containers[0]?.env ?? [];
    const without = await render(helm);
    expect(settingsOf(without)).not.toContain('RELAY_');
    for (const role of ['api', 'sweeper']) {
      expect(envOf(role, manifests)).toContainEqual({
        name: 'RELAY_TOKEN',
        valueFrom: { secretKeyRef: { name: 'relay', key: 'token' } },
      });
      expect(envOf(role, without).map(({ name }) => name)).not.toContain('RELAY_TOKEN');
    }
    expect(envOf('operator', manifests).map(({ name }) => name)).not.toContain('RELAY_TOKEN');
  });

  it('the database has no version in its labels and claims, so that an upgrade does not restart it', async () => {
    const text = JSON.stringify(pick(await render(helm), 'StatefulSet', 'beatkeeper-postgresql').spec);
    expect(text).not.toContain('helm.sh/chart');
    expect(text).not.toContain('app.kubernetes.io/version');
  });

  it('api has no number of replicas if it has an autoscaler', async () => {
    const manifests = await render(helm, { api: { autoscaling: { enabled: true } } });
    expect(pick(manifests, 'Deployment', 'beatkeeper-api').spec).not.toHaveProperty('replicas');
    expect(pick(manifests, 'HorizontalPodAutoscaler', 'beatkeeper-api').spec).toMatchObject({
      minReplicas: 2,
      maxReplicas: 10,
    });
  });
});

interface Rule {
  resources: string[];
  verbs: string[];
}

function _listRules(manifests: Manifest[]): Rule[] {
  return manifests.flatMap(({ rules }) => (Array.isArray(rules) ? (rules as Rule[]) : []));
}

function _anyOf(...words: string[]): unknown {
  return expect.stringMatching(new RegExp(`^(${words.map((word) => word.replace('*', '\\*')).join('|')})$`));
}

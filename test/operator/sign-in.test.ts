// The operator signs in with a token of the cluster's own issuer, which nobody has configured; and its readiness says when
// it cannot (docs/contract/kubernetes.md, docs/operations.md "Health").
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TrustedIssuer } from '../../src/api/auth/session-token.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { startOperator } from '../../src/operator/start-operator.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { Readiness } from '../../src/telemetry/readiness.ts';
import type { Running } from '../../src/telemetry/run-until-signal.ts';
import { adminKubeconfig, connect, createNamespace, hasCluster, type TestClient } from '../kube/cluster.ts';
import { mountAccount, trustCluster } from '../kube/service-accounts.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

interface Started {
  readiness: Readiness;
  lines: Record<string, unknown>[];
}

describe.skipIf(!hasCluster)("an operator with a token of a cluster's own issuer", () => {
  let test: TestClient;
  let api: ApiFixture;
  let namespace: string;
  let folder: string;
  let tokenFile: string;
  let cluster: TrustedIssuer;
  let running: Running[] = [];

  beforeAll(async () => {
    test = connect();
    namespace = await createNamespace(test.client);
    folder = await mkdtemp(join(tmpdir(), 'sign-in-'));
    const own = await mountAccount(test, { name: 'api', namespace }, { folder });
    tokenFile = await mountAccount(test, { name: 'operator', namespace }, { folder, audience: 'beatkeeper' });
    const roles = { [`system:serviceaccount:${namespace}:operator`]: 'operator' } as const;
    cluster = await trustCluster(roles, { folder, tokenFile: own });
    api = await openApiFixture({ config: { issuers: [cluster] } });
  });
  afterEach(async () => {
    for (const one of running) await one.close();
    running = [];
  });
  afterAll(async () => {
    await api?.close();
    await test?.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function start(apiUrl: string): Promise<Started> {
    const lines: Record<string, unknown>[] = [];
    const log = createLog(
      { role: 'operator', level: 'info' },
      { write: (line: string) => void lines.push(JSON.parse(line)) },
    );
    const readiness = new Readiness(log);
    const settings = {
      ...{ apiUrl, tokenFile, kubeconfig: adminKubeconfig, namespace },
      watchNamespaces: [namespace],
      defaultCallbackNamespaces: [],
      leaseName: 'beatkeeper-operator',
      lastBeatPeriodSeconds: 60,
      orphans: 'Keep' as const,
      monitorMetricsMax: 20_000,
      workloads: true,
      workloadLogs: false,
    };
    const telemetry = { log, registry: new Registry(), readiness };
    running.push(await startOperator(settings, telemetry, { onLost: () => undefined }));
    return { readiness, lines };
  }
  const becomes = (readiness: Readiness, session: 'ok' | 'failing') =>
    waitFor(
      async () => {
        const { status, checks } = await readiness.readReadiness();
        return checks.caches === 'ok' && checks.session === session && status === session;
      },
      { what: `the check of the session is ${session}` },
    );

  it('it signs in although no issuer is configured, is ready, and works', async () => {
    const { readiness } = await start(api.url);
    await becomes(readiness, 'ok');
    const spec = { callback: { kind: 'disabled' } };
    const metadata = { name: 'first', namespace };
    await test.client.create(MONITORS, { metadata, spec } as object as Parameters<
      typeof test.client.create
    >[1]);
    const isReady = async () => {
      const { status } = await test.client.get(MONITORS, metadata);
      return status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True');
    };
    await waitFor(isReady, { what: 'the Monitor is ready' });
  });

  it('it is not ready while the API refuses its token, and the log says whose token it is', async () => {
    const wrong = { ...cluster, issuer: 'https://kubernetes.default.svc.cluster.local' };
    const refusing = await api.startReplica({ issuers: [wrong] });
    const { readiness, lines } = await start(refusing.url);
    const told = async () => {
      await becomes(readiness, 'failing');
      return lines.find(({ check, fault }) => check === 'session' && String(fault).includes('refuses'))
        ?.fault;
    };
    const fault = await waitFor(told, { what: 'the log says why' });
    expect(fault).toContain(`It is of system:serviceaccount:${namespace}:operator, by the issuer https://`);
    expect(fault).toContain('auth.clusterIssuer');
    expect(fault).toContain('service.authentication_required');
  });

  it('it is not ready before the API has answered, and stays ready when the API is away afterwards', async () => {
    const proxy = await TcpProxy.start(api.url);
    await proxy.refuse();
    try {
      const { readiness, lines } = await start(proxy.url);
      await becomes(readiness, 'failing');
      await proxy.accept();
      await becomes(readiness, 'ok');
      await proxy.refuse();
      const isAway = () => lines.some(({ msg }) => msg === 'The status feed does not answer.');
      await waitFor(isAway, { what: 'the operator has noticed' });
      expect((await readiness.readReadiness()).status).toBe('ok');
    } finally {
      await running.pop()?.close();
      await proxy.close();
    }
  });
});

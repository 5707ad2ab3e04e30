// A cluster with the product for the benchmark of the operator: kube-apiserver and etcd, and api, sweeper and operator, each
// in a process of its own as in a container, so that its processor time and memory can be read.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HOW_TO_GET_A_CONTROL_PLANE } from '../src/dev/control-plane/control-plane-binaries.ts';
import { newUuid } from '../src/domain/id.ts';
import { KubeClient } from '../src/kube/kube-client.ts';
import { KubeTransport } from '../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../src/kube/load-kube-config.ts';
import { NAMESPACES } from '../src/operator/resources/core-resources.ts';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { insertOrganization } from '../src/store/tenancy/organizations.ts';
import { startTestControlPlane } from '../test/support/control-plane.ts';
import { type RoleProcess, startRole } from '../test/support/role-process.ts';
import { startTokenIssuer } from '../test/support/token-issuer.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { type Environment, settingsOfImage, VoidMeasurement } from './environment.ts';
import { sumBy } from './metrics-text.ts';
import { processorMsOf, processorMsOfNamed } from './processor-time.ts';

export const NAMESPACE = 'bench';
const KEYS = `bench:${Buffer.alloc(32, 1).toString('base64')}`;
/**
 * The heap that Node takes in the memory of the chart's operator (768 MiB): half of it. The machine of a benchmark has
 * more, so that garbage would stay longer.
 */
const HEAP_MIB = 384;

/** Milliseconds so far. */
export interface Processors {
  apiserver: number;
  etcd: number;
  api: number;
  postgres: number;
}

export interface OperatorProcess {
  /** Since it was started. */
  startedMs: number;
  processorMs(): Promise<number>;
  /** Resident memory in MiB: now, and the most so far. */
  memory(): Promise<{ now: number; peak: number }>;
  /** Calls of `/v1` by operation. */
  calls(): Promise<Map<string, number>>;
  /** Ended passes over Monitors, keys that wait for one, and statuses of Monitors that were written. */
  progress(): Promise<{ passes: number; waiting: number; statusWrites: number }>;
  scrape(): Promise<string>;
  close(): Promise<void>;
}

export interface OperatorProduct {
  kube: KubeClient;
  pool: Pool;
  apiUrl: string;
  /** `metricsOfMonitors`: each scrape has series of each Monitor, as by default. */
  startOperator(options?: { metricsOfMonitors?: boolean }): Promise<OperatorProcess>;
  /** As `waitFor`; ends with the operator, if that loses its lease because it gets no processor. */
  until(
    what: string,
    probe: () => Promise<boolean> | boolean,
    limits: { timeoutMs: number; intervalMs: number },
  ): Promise<void>;
  processors(): Promise<Processors>;
  /** What the API server has answered, by verb and resource: `APPLY monitors/status`. */
  requests(): Promise<Map<string, number>>;
  close(): Promise<void>;
}

/** The audit log has the projects that the operator makes. */
function showFaults(line: string): void {
  if (!line.includes('"audit"')) console.error(line);
}

/** Throws where no control plane can be had. */
export async function startOperatorProduct({ databaseUrl, folder }: Environment): Promise<OperatorProduct> {
  const closing: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const one of closing.toReversed()) await one();
  };
  try {
    return await start();
  } catch (error) {
    await close();
    throw error;
  }

  async function start(): Promise<OperatorProduct> {
    const plane = await startTestControlPlane(true);
    if (plane === undefined) throw new VoidMeasurement(HOW_TO_GET_A_CONTROL_PLANE);
    closing.push(() => plane.stop());
    const { kubeconfig } = plane;
    const loadConfig = () => loadKubeConfig(kubeconfig);
    const transport = new KubeTransport({ loadConfig, userAgent: 'bench/1', requestTimeoutMs: 60_000 });
    closing.push(() => transport.close());
    const kube = new KubeClient(transport);
    await kube.create(NAMESPACES, { metadata: { name: NAMESPACE } });
    const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 60_000 });
    closing.push(() => pool.end());
    await insertOrganization(pool, { organizationId: newUuid(), name: 'acme', plan: 'scale' });
    const issuer = await startTokenIssuer();
    closing.push(() => issuer.close());
    const trusted = issuer.trusted({
      organization: 'acme',
      roleClaim: 'role',
      roles: { operator: 'operator' },
    });
    const tokenFile = join(folder, 'token');
    await writeFile(tokenFile, await issuer.sign({ claims: { role: 'operator' }, lifeSeconds: 80_000 }));
    const image = await settingsOfImage();
    const settings = {
      ...image,
      DATABASE_URL: databaseUrl,
      BEATKEEPER_ENCRYPTION_KEYS: KEYS,
      BEATKEEPER_ISSUERS: JSON.stringify([trusted]),
      BEATKEEPER_PUBLIC_URL: 'http://127.0.0.1:8080',
    };
    const api = await startRole('api', settings, showFaults);
    closing.push(() => api.close());
    const sweeper = await startRole('sweeper', settings, showFaults);
    closing.push(() => sweeper.close());
    const operators = new Set<OperatorProcess>();
    const lost = new AbortController();
    closing.push(() => Promise.all([...operators].map((operator) => operator.close())));
    return {
      ...{ kube, pool, apiUrl: api.url, close },
      async startOperator({ metricsOfMonitors = false } = {}) {
        const startedMs = performance.now();
        const role = await startRole('operator', {
          ...image,
          NODE_OPTIONS: `${image.NODE_OPTIONS ?? ''} --max-old-space-size=${HEAP_MIB}`,
          BEATKEEPER_API_URL: api.url,
          BEATKEEPER_TOKEN_FILE: tokenFile,
          KUBECONFIG: kubeconfig,
          POD_NAMESPACE: NAMESPACE,
          // Asking how far it is must not cost it anything.
          ...(metricsOfMonitors ? {} : { BEATKEEPER_MONITOR_METRICS_MAX: '0' }),
        });
        const operator = operatorOf(role, startedMs, () => operators.delete(operator));
        operators.add(operator);
        void role.exited.then(() => {
          if (operators.has(operator)) lost.abort(new VoidMeasurement('The operator lost its lease.'));
        });
        return operator;
      },
      async until(what, probe, limits) {
        await waitFor(probe, { what, ...limits, signal: lost.signal });
      },
      processors: async () => ({
        apiserver: await processorMsOfNamed('kube-apiserver'),
        etcd: await processorMsOfNamed('etcd'),
        api: await processorMsOf(api.pid),
        postgres: await processorMsOfNamed('postgres'),
      }),
      async requests() {
        const lines: string[] = [];
        for await (const line of transport.streamLines({ method: 'GET', path: '/metrics' })) lines.push(line);
        return sumBy(lines, 'apiserver_request_total', ({ verb, resource, subresource }) =>
          resource === '' ? undefined : `${verb} ${resource}${subresource ? `/${subresource}` : ''}`,
        );
      },
    };
  }
}

function operatorOf(role: RoleProcess, startedMs: number, ended: () => void): OperatorProcess {
  const scrape = async () => await (await fetch(`${role.healthUrl}/metrics`)).text();
  const readLines = async () => (await scrape()).split('\n');
  const count = (lines: string[], name: string, labels: Record<string, string>) => {
    const isOne = (of: Record<string, string>) =>
      Object.entries(labels).every(([key, text]) => of[key] === text);
    return sumBy(lines, name, (of) => (isOne(of) ? name : undefined)).get(name) ?? 0;
  };
  return {
    startedMs,
    scrape,
    processorMs: () => processorMsOf(role.pid),
    async memory() {
      const text = await readFile(`/proc/${role.pid}/status`, 'utf8').catch(() => '');
      const mib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1]) / 1_024;
      return { now: mib('VmRSS'), peak: mib('VmHWM') };
    },
    calls: async () =>
      sumBy(await readLines(), 'beatkeeper_operator_api_requests_total', ({ operation }) => operation),
    async progress() {
      const lines = await readLines();
      return {
        passes: count(lines, 'controller_runtime_reconcile_total', { controller: 'monitor' }),
        waiting: count(lines, 'workqueue_depth', { name: 'monitor' }),
        statusWrites: count(lines, 'beatkeeper_operator_status_writes_total', { kind: 'Monitor' }),
      };
    },
    async close() {
      ended();
      await role.close();
    },
  };
}

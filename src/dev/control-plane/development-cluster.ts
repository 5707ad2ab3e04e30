// Prepares a cluster for a development run: CRDs with the lower limits of the run, the chart's service accounts, their
// tokens in files (as a pod has them), and the examples.
import { readFile, rename, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { applyCrds } from '../../install/apply-crds.ts';
import { applyManifest, type Cluster, readManifests } from '../../install/apply-manifests.ts';
import { connectCluster } from '../../install/connect-cluster.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import { loadKubeConfig } from '../../kube/load-kube-config.ts';
import type { State } from '../state.ts';

/** The namespace of the operator's Lease and of the service accounts. */
export const SYSTEM_NAMESPACE = 'beatkeeper-system';
/** `<namespace>/<fullname>`, as of an installation by the chart: its service accounts are called `<fullname>-<role>`. */
export const RELEASE = `${SYSTEM_NAMESPACE}/beatkeeper`;
const EXAMPLES = fileURLToPath(new URL('../../../examples', import.meta.url));
const AUDIENCE = 'beatkeeper';
const TOKEN_SECONDS = 12 * 3_600;
const REFRESH_MS = 20 * 60_000;
const RETRY_MS = 5_000;

export interface DevelopmentCluster {
  /** Its entry in BEATKEEPER_ISSUERS. */
  issuer: object;
  /** The file of the operator's token, which is renewed before it expires. */
  tokenFile: string;
  /** Applies `examples/` to the namespace `default` and resolves to the objects. */
  applyExamples(): Promise<KubeObject[]>;
  close(): Promise<void>;
}

export interface ClusterOptions {
  kubeconfig: string;
  minimumIntervalSeconds: number;
  /** Name of the organization in which the cluster's principals act. */
  organization: string;
}

/** Throws KubeError. Calls `onTrouble` with a sentence if it cannot renew a token now. */
export async function openDevelopmentCluster(
  state: State,
  { kubeconfig, minimumIntervalSeconds, organization }: ClusterOptions,
  onTrouble: (text: string) => void,
): Promise<DevelopmentCluster> {
  const cluster = connectCluster(kubeconfig);
  await applyCrds(cluster, (crd) => lowerMinimums(crd, minimumIntervalSeconds));
  for (const object of accountObjects()) {
    await applyManifest(cluster, object, { namespace: SYSTEM_NAMESPACE, force: true });
  }
  const operator = {
    file: state.path('cluster', 'operator-token'),
    account: 'beatkeeper-operator',
    audience: AUDIENCE,
  };
  const api = { file: state.path('cluster', 'api-token'), account: 'beatkeeper-api' };
  const refresh = async () => {
    for (const token of [operator, api]) await writeToken(cluster, token);
  };
  await refresh();
  const stop = repeat(refresh, onTrouble);
  return {
    issuer: await issuerSettings(state, { kubeconfig, organization, tokenFile: api.file }),
    tokenFile: operator.file,
    async applyExamples() {
      const objects = await readManifests(EXAMPLES);
      const applied: KubeObject[] = [];
      for (const object of objects) {
        applied.push(await applyManifest(cluster, object, { namespace: 'default', force: true }));
      }
      return applied;
    },
    async close() {
      stop();
      await cluster.transport.close();
    },
  };
}

const LOWERED_FIELDS = new Set(['intervalSeconds', 'graceSeconds']);
const MINIMUM_SECONDS = 60;

/** Returns a copy of the definition in which the minimum of interval and grace is `seconds`. */
export function lowerMinimums(crd: KubeObject, seconds: number): KubeObject {
  const lower = (value: unknown, name: string): unknown => {
    if (Array.isArray(value)) return value.map((item) => lower(item, ''));
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, inner]) => [key, lower(inner, key)]);
    const copy: Record<string, unknown> = Object.fromEntries(entries);
    const isLowered = LOWERED_FIELDS.has(name) && copy.minimum === MINIMUM_SECONDS;
    if (isLowered) copy.minimum = Math.min(MINIMUM_SECONDS, seconds);
    return copy;
  };
  return lower(crd, '') as KubeObject;
}

function accountObjects(): KubeObject[] {
  const account = (name: string): KubeObject => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: `beatkeeper-${name}`, namespace: SYSTEM_NAMESPACE },
  });
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } },
    ...['api', 'operator', 'owner', 'member', 'viewer'].map(account),
  ];
}

interface AccountToken {
  file: string;
  account: string;
  /** Default: the API server itself. */
  audience?: string;
}

async function writeToken({ transport }: Cluster, { file, account, audience }: AccountToken): Promise<void> {
  const answer = (await transport.request({
    method: 'POST',
    path: `/api/v1/namespaces/${SYSTEM_NAMESPACE}/serviceaccounts/${account}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: TOKEN_SECONDS, ...(audience ? { audiences: [audience] } : {}) },
    },
  })) as { status: { token: string } };
  await writeFile(`${file}.new`, answer.status.token, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

function repeat(work: () => Promise<void>, onTrouble: (text: string) => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const schedule = (afterMs: number) => {
    if (isOver) return;
    timer = setTimeout(() => {
      work().then(
        () => schedule(REFRESH_MS),
        (error: Error) => {
          onTrouble(`Could not renew the tokens of the service accounts; trying again: ${error.message}`);
          schedule(RETRY_MS);
        },
      );
    }, afterMs);
  };
  schedule(REFRESH_MS);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

async function issuerSettings(
  state: State,
  options: { kubeconfig: string; organization: string; tokenFile: string },
): Promise<object> {
  const cluster = loadKubeConfig(options.kubeconfig).getCurrentCluster();
  if (cluster === null) throw new Error(`${options.kubeconfig} has no current cluster.`);
  const caFile = state.path('cluster', 'ca.crt');
  const { caData, caFile: givenFile } = cluster;
  const authority = caData ? Buffer.from(caData, 'base64') : await readFile(givenFile ?? '');
  await writeFile(caFile, authority);
  const subject = (account: string) => `system:serviceaccount:${SYSTEM_NAMESPACE}:beatkeeper-${account}`;
  return {
    // No issuer: the token of `tokenFile` names it, as in an installation.
    audience: AUDIENCE,
    jwksUri: `${cluster.server}/openid/v1/jwks`,
    caFile,
    tokenFile: options.tokenFile,
    organization: options.organization,
    roles: Object.fromEntries(['operator', 'owner', 'member', 'viewer'].map((role) => [subject(role), role])),
  };
}

// Prepares a Kubernetes control plane on loopback: keys, tokens and kubeconfig in a folder, and the commands of etcd
// and kube-apiserver. The caller starts, watches and restarts the processes.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { stringify } from 'yaml';
import type { ServerCommand } from '../postgres/postgres-server.ts';
import { waitFor } from '../processes/wait-for.ts';

export interface ControlPlaneOptions {
  /** The folder with the programs. */
  binaries: string;
  /** The folder for keys and data, created at the first use. */
  folder: string;
  ports: { etcd: number; etcdPeer: number; apiserver: number };
  /** False only in tests: etcd does not fsync. */
  durable: boolean;
  /** Of service-account tokens. Default: the usual one. */
  issuer?: string;
}

export interface ControlPlane {
  etcd: ServerCommand;
  apiserver: ServerCommand;
  /** The path of an administrator's kubeconfig, which exists after `waitUntilReady`. */
  kubeconfig: string;
  /** Writes the kubeconfig and resolves when the API server is ready. */
  waitUntilReady(timeoutMs: number, signal?: AbortSignal): Promise<void>;
}

/** As in an ordinary cluster. */
const USUAL_ISSUER = 'https://kubernetes.default.svc.cluster.local';

const CERTIFICATE_MAX_AGE_MS = 300 * 86_400_000; // it is valid for a year

/** Creates what is missing in the folder and returns the commands to run. */
export async function prepareControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { folder, ports } = options;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const token = await adminToken(folder);
  await serviceAccountKeys(folder);
  await dropOldCertificate(folder);
  const kubeconfig = join(folder, 'kubeconfig');
  const server = `https://127.0.0.1:${ports.apiserver}`;
  return {
    etcd: etcdCommand(options),
    apiserver: apiserverCommand(options),
    kubeconfig,
    async waitUntilReady(timeoutMs, signal) {
      const what = 'kube-apiserver is ready';
      const probe = async () => {
        const authority = await readFile(join(folder, 'certs', 'apiserver.crt'), 'utf8');
        const dispatcher = new Agent({ connect: { ca: authority } });
        try {
          const headers = { authorization: `Bearer ${token}` };
          const { statusCode, body } = await request(`${server}/readyz`, { dispatcher, headers });
          await body.dump();
          return statusCode === 200 ? authority : undefined;
        } finally {
          await dispatcher.close();
        }
      };
      const authority = await waitFor(probe, { what, timeoutMs, intervalMs: 100, signal });
      await writeFile(kubeconfig, kubeconfigText(server, authority, token), { mode: 0o600 });
    },
  };
}

async function adminToken(folder: string): Promise<string> {
  const file = join(folder, 'tokens.csv');
  const known = await readFile(file, 'utf8').catch(() => '');
  const [token = ''] = known.split(',');
  if (token !== '') return token;
  const created = randomBytes(24).toString('base64url');
  await writeFile(file, `${created},admin,admin,"system:masters"\n`, { mode: 0o600 });
  return created;
}

async function serviceAccountKeys(folder: string): Promise<void> {
  const known = await readFile(join(folder, 'sa.pub'), 'utf8').catch(() => '');
  if (known !== '') return;
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });
  await writeFile(join(folder, 'sa.key'), privateKey, { mode: 0o600 });
  await writeFile(join(folder, 'sa.pub'), publicKey);
}

// kube-apiserver creates a certificate for itself if there is none, but does not renew it.
async function dropOldCertificate(folder: string): Promise<void> {
  const certificate = await stat(join(folder, 'certs', 'apiserver.crt')).catch(() => undefined);
  if (certificate === undefined || Date.now() - certificate.mtimeMs < CERTIFICATE_MAX_AGE_MS) return;
  await rm(join(folder, 'certs'), { recursive: true });
}

function etcdCommand({ binaries, folder, ports, durable }: ControlPlaneOptions): ServerCommand {
  const client = `http://127.0.0.1:${ports.etcd}`;
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  const args = [
    ...['--name', 'beatkeeper', '--data-dir', join(folder, 'etcd'), '--log-level', 'warn'],
    ...['--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
    ...['--initial-cluster', `beatkeeper=${peer}`],
    ...(durable ? [] : ['--unsafe-no-fsync']),
  ];
  return { command: join(binaries, 'etcd'), args, options: { cwd: folder } };
}

function apiserverCommand(options: ControlPlaneOptions): ServerCommand {
  const { binaries, folder, ports, issuer = USUAL_ISSUER } = options;
  const args = [
    ...['--etcd-servers', `http://127.0.0.1:${ports.etcd}`],
    ...['--bind-address', '127.0.0.1', '--secure-port', String(ports.apiserver)],
    ...['--cert-dir', join(folder, 'certs'), '--service-cluster-ip-range', '10.96.0.0/16'],
    // There is no address but loopback to advertise, and nobody calls a Service of this cluster.
    ...['--endpoint-reconciler-type', 'none'],
    ...['--authorization-mode', 'RBAC', '--token-auth-file', join(folder, 'tokens.csv')],
    ...['--service-account-issuer', issuer],
    ...['--service-account-jwks-uri', `https://127.0.0.1:${ports.apiserver}/openid/v1/jwks`],
    ...['--service-account-key-file', join(folder, 'sa.pub')],
    ...['--service-account-signing-key-file', join(folder, 'sa.key')],
  ];
  return { command: join(binaries, 'kube-apiserver'), args, options: { cwd: folder } };
}

function kubeconfigText(server: string, authority: string, token: string): string {
  const name = 'beatkeeper';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [
      { name, cluster: { server, 'certificate-authority-data': Buffer.from(authority).toString('base64') } },
    ],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
  });
}

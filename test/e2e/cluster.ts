// A whole Kubernetes cluster for the run, which has the image of the Dockerfile, and the tools to use it. Scripts beside the
// checkout (or in BEATKEEPER_CLUSTER_SCRIPTS) make the cluster: build, up, load, down.
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import { type ProgramOptions, runProgram } from '../support/run-program.ts';

export const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));
export const CHART = join(CHECKOUT, 'charts', 'beatkeeper');
/** Two tags of one build: an upgrade from one to the other replaces every pod. */
export const IMAGE = { repository: 'beatkeeper', first: 'e2e-first', second: 'e2e-second' };
/** The address of this machine for pods. */
export const HOST_ADDRESS = '10.200.0.1';

export interface Cluster {
  kubeconfig: string;
  kubectl(...args: string[]): Promise<string>;
  /** With this text as standard input. */
  kubectlWith(input: string, ...args: string[]): Promise<string>;
  helm(...args: string[]): Promise<string>;
  /** With these values, as one file of `--values`. */
  helmWith(values: object, ...args: string[]): Promise<string>;
  /** Runs `kubectl apply`. Throws the server's message. */
  apply(...objects: object[]): Promise<void>;
  /** Runs `kubectl create`. Throws the server's message. */
  create(object: object, ...more: string[]): Promise<void>;
  /** One object; undefined if it does not exist. */
  find<T extends object>(kind: string, name: string, namespace: string): Promise<T | undefined>;
  /** The result of a JSONPath: `read('{.spec.clusterIP}', namespace, 'service', 'beatkeeper-api')`. */
  read(path: string, namespace: string, ...what: string[]): Promise<string>;
  /** A key of a Secret as text. */
  secret(name: string, key: string, namespace: string): Promise<string>;
  down(): Promise<void>;
}

/** An image of the product from the Dockerfile of a folder. */
export interface ImageBuild {
  folder: string;
  tag: string;
}

/**
 * Builds the tools that are missing, the image and those of `more`, and starts an empty cluster that has them. Takes minutes
 * the first time.
 */
export async function startCluster(more: readonly ImageBuild[] = []): Promise<Cluster> {
  const scripts = process.env.BEATKEEPER_CLUSTER_SCRIPTS ?? join(CHECKOUT, '..', 'shared', 'cluster');
  if (!existsSync(join(scripts, 'up'))) {
    throw new Error(
      `The e2e suite needs scripts that start a cluster: set BEATKEEPER_CLUSTER_SCRIPTS (now ${scripts}).`,
    );
  }
  const bin = (await execute(join(scripts, 'build'), [])).trim();
  await execute(join(scripts, 'images', 'build'), []);
  await buildImage({ folder: CHECKOUT, tag: IMAGE.first });
  await execute('docker', ['tag', imageOf(IMAGE.first), imageOf(IMAGE.second)]);
  for (const build of more) await buildImage(build);
  await execute(join(scripts, 'down'), []);
  const kubeconfig = (await execute(join(scripts, 'up'), [])).trim();
  const tags = [IMAGE.first, IMAGE.second, ...more.map(({ tag }) => tag)];
  await execute(join(scripts, 'load'), [...tags.map(imageOf), 'postgres:18']);
  return useCluster(bin, kubeconfig, async () => {
    await execute(join(scripts, 'down'), []);
  });
}

const imageOf = (tag: string) => `${IMAGE.repository}:${tag}`;

async function buildImage({ folder, tag }: ImageBuild): Promise<void> {
  const build = () =>
    execute('docker', ['build', '--quiet', '--network', 'host', '--tag', imageOf(tag), folder]);
  await build().catch(build); // the registry may answer the second time
}

function useCluster(bin: string, kubeconfig: string, down: () => Promise<void>): Cluster {
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const kubectl = (...args: string[]) => execute(join(bin, 'kubectl'), args, { env });
  const read = (path: string, namespace: string, ...what: string[]) =>
    kubectl('get', ...what, '--namespace', namespace, '--output', `jsonpath=${path}`);
  const kubectlWith = (input: string, ...args: string[]) =>
    execute(join(bin, 'kubectl'), args, { env, input });
  return {
    kubeconfig,
    kubectl,
    kubectlWith,
    helm: (...args) => execute(join(bin, 'helm'), args, { env }),
    helmWith: (values, ...args) =>
      execute(join(bin, 'helm'), [...args, '--values', '-'], { env, input: stringify(values) }),
    async apply(...objects) {
      const input = objects.map((object) => stringify(object)).join('---\n');
      await kubectlWith(input, 'apply', '--filename', '-');
    },
    async create(object, ...more) {
      await kubectlWith(stringify(object), 'create', ...more, '--filename', '-');
    },
    async find<T extends object>(kind: string, name: string, namespace: string) {
      const options = ['--namespace', namespace, '--ignore-not-found', '--output', 'json'];
      const text = await kubectl('get', kind, name, ...options);
      return text === '' ? undefined : (JSON.parse(text) as T);
    },
    read,
    async secret(name, key, namespace) {
      const encoded = await read(`{.data.${key}}`, namespace, 'secret', name);
      return Buffer.from(encoded, 'base64').toString();
    },
    down,
  };
}

/** Runs a program and returns its standard output. Throws its output when it fails. */
export async function execute(program: string, args: string[], options?: ProgramOptions): Promise<string> {
  const { code, stdout, stderr } = await runProgram(program, args, options);
  if (code === 0) return stdout;
  throw new Error(`${program} ${args.slice(0, 4).join(' ')} ended with ${code}:\n${stdout}${stderr}`);
}

/** A copy of the chart with a higher version. The caller removes the folder. */
export async function makeNextChart(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-chart-'));
  await cp(CHART, folder, { recursive: true });
  const file = join(folder, 'Chart.yaml');
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace(/^version: .*/m, 'version: 99.0.0'));
  return folder;
}

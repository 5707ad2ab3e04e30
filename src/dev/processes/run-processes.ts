// Finds and ends the processes of a run by a mark in their environment, which children inherit. A pid file would be
// wrong after a crash between start and write, and after the system has used the pid again.
import { execFile } from 'node:child_process';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { promisify } from 'node:util';
import { waitFor } from './wait-for.ts';

/** The variable that marks each process of a run: `<folder of the run>#<id of the run>`. */
export const RUN_MARK_VARIABLE = 'BEATKEEPER_RUN_MARK';

export interface RunProcesses {
  /** The state folder of the run. Processes that work inside it belong to the run too. */
  folder: string;
  /** Selects one run of the folder. Default: all its runs. */
  runId?: string;
}

export function runMark(folder: string, runId: string): string {
  return `${folder}#${runId}`;
}

/** The pids of all living processes of a run, without the caller's own. */
export async function findRunProcesses(run: RunProcesses): Promise<number[]> {
  const found = process.platform === 'linux' ? await findByProc(run) : await findByPs(run);
  return found.filter((pid) => pid !== process.pid);
}

async function findByProc(run: RunProcesses): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const ours = await Promise.all(pids.map((pid) => belongs(pid, run)));
  return pids.filter((_, index) => ours[index]);
}

async function belongs(pid: number, { folder, runId }: RunProcesses): Promise<boolean> {
  try {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
    const prefix = `${RUN_MARK_VARIABLE}=${folder}#`;
    const mark = environment.split('\0').find((entry) => entry.startsWith(prefix));
    if (mark !== undefined) return (runId === undefined || mark === prefix + runId) && (await isAlive(pid));
    // Postgres overwrites the environment of its children with process titles; their working folder is the data folder.
    if (runId !== undefined) return false;
    return `${await readlink(`/proc/${pid}/cwd`)}/`.startsWith(`${folder}/`) && (await isAlive(pid));
  } catch {
    return false; // it has ended, or belongs to another user
  }
}

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const state = stat.slice(stat.lastIndexOf(')') + 2)[0];
  return state !== 'Z' && state !== 'X';
}

async function findByPs({ folder, runId }: RunProcesses): Promise<number[]> {
  const options = { maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await promisify(execFile)('ps', ['eww', '-axo', 'pid=,command='], options);
  const mark = ` ${RUN_MARK_VARIABLE}=${folder}#${runId ?? ''}`;
  return stdout
    .split('\n')
    .filter((line) => line.includes(mark))
    .map((line) => Number.parseInt(line, 10));
}

/** Ends the processes of a run: SIGTERM, and SIGKILL for those that live after `graceMs`. Returns their number. */
export async function endRunProcesses(run: RunProcesses, graceMs: number): Promise<number> {
  const first = await findRunProcesses(run);
  if (first.length === 0) return 0;
  for (const pid of first) signalProcess(pid, 'SIGTERM');
  const gone = async () => (await findRunProcesses(run)).length === 0;
  try {
    await waitFor(gone, { what: 'processes end', timeoutMs: graceMs, intervalMs: 50 });
  } catch {
    const killed = async () => {
      const left = await findRunProcesses(run);
      for (const pid of left) signalProcess(pid, 'SIGKILL');
      return left.length === 0;
    };
    await waitFor(killed, { what: `the processes of ${run.folder} end`, timeoutMs: 10_000, intervalMs: 100 });
  }
  return first.length;
}

/** Sends a signal. Returns false if the process is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

// Starts `npm run dev` as a user does, in a state folder of its own, and reads its output.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { endRunProcesses, findRunProcesses, signalProcess } from '../../src/dev/processes/run-processes.ts';
import { waitFor } from '../support/wait-for.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export const readySchema = z.strictObject({
  api: z.url(),
  apis: z.array(z.url()).min(1),
  organizationId: z.uuid(),
  projectId: z.uuid(),
  credential: z.string().regex(/^bkc_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/),
  readCredential: z.string().regex(/^bkc_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/),
  ownerToken: z.jwt(),
  tokens: z.strictObject({ member: z.jwt(), viewer: z.jwt(), expired: z.jwt(), otherOwner: z.jwt() }),
  databaseUrl: z.url(),
  kubeconfig: z.string().optional(),
});

const startedSchema = z.strictObject({
  role: z.enum(['postgres', 'etcd', 'kube-apiserver', 'api', 'sweeper', 'operator']),
  pid: z.int(),
  health: z.url().optional(),
});
type Started = z.infer<typeof startedSchema>;

/** docs/contract/development.md promises 10 s, and the limits of the run's parts add up to 8; the rest is for a busy machine. */
export const END_LIMIT_MS = 90_000;

export type ReadyFields = z.infer<typeof readySchema>;

/** A state folder for one or more runs. `remove` also ends processes that a failed test left. */
export async function makeStateFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'beatkeeper-dev-')));
  return {
    folder,
    async remove() {
      await endRunProcesses({ folder }, 0);
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

export interface RunOptions {
  args?: readonly string[];
  env?: Record<string, string>;
}

export class DevelopmentRun {
  readonly folder: string;
  readonly stdout: string[] = [];
  stderr = '';
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  #isRead = false;

  constructor(folder: string, { args = [], env = {} }: RunOptions = {}) {
    this.folder = folder;
    // Each run starts its own Postgres, also when the other suites use the one of DATABASE_URL.
    const { BEATKEEPER_RUN_MARK: _mark, DATABASE_URL: _url, ...inherited } = process.env;
    this.#child = spawn('npm', ['run', 'dev', '--', ...args], {
      cwd: ROOT,
      env: { ...inherited, PORT: '0', BEATKEEPER_STATE_DIR: folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#exited = once(this.#child, 'exit');
    this.#child.once('close', () => {
      this.#isRead = true;
    });
    const { stdout, stderr } = this.#child;
    if (stdout) createInterface({ input: stdout }).on('line', (line) => this.stdout.push(line));
    stderr?.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString();
    });
  }

  /** The lines of the run on standard output, without npm's banner. */
  get lines(): string[] {
    return this.stdout.filter((line) => line !== '' && !line.startsWith('> '));
  }

  async ready(timeoutMs = 240_000): Promise<ReadyFields> {
    const line = await this.#lineBeginning('ready ', timeoutMs);
    return readySchema.parse(JSON.parse(line.slice('ready '.length)));
  }

  async #lineBeginning(word: string, timeoutMs: number): Promise<string> {
    const probe = () => {
      if (this.#child.exitCode !== null) return { gone: true };
      return this.stdout.find((line) => line.startsWith(word));
    };
    const found = await waitFor(probe, { what: `the line "${word}"`, timeoutMs }).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.stdout.join('\n')}\n${this.stderr}`);
    });
    if (typeof found === 'string') return found;
    throw new Error(`The run ended with ${this.#child.exitCode}:\n${this.stderr}`);
  }

  /** Pids of a role in the order of their starts. */
  pids(role: string): number[] {
    return this.#starts(role).map(({ pid }) => pid);
  }

  /** Where the health of each process of a role is. */
  healths(role: string): string[] {
    return [...new Set(this.#starts(role).flatMap(({ health }) => health ?? []))];
  }

  #starts(role: string): Started[] {
    return this.lines
      .filter((line) => line.startsWith('started '))
      .map((line) => startedSchema.parse(JSON.parse(line.slice('started '.length))))
      .filter((started) => started.role === role);
  }

  /** Kills the newest process of a role and resolves to the pid of the one that took its place. */
  async killAndAwaitNext(role: string): Promise<number> {
    const before = this.pids(role);
    signalProcess(before.at(-1) ?? 0, 'SIGKILL');
    const next = () => this.pids(role)[before.length];
    return await waitFor(next, { what: `${role} is started again` });
  }

  /** npm's pid, which is also its process group. */
  get npmPid(): number {
    return this.#child.pid ?? 0;
  }

  /** The pid of the supervisor, which npm started. */
  async supervisorPid(): Promise<number> {
    const { readFile } = await import('node:fs/promises');
    const children = await readFile(`/proc/${this.npmPid}/task/${this.npmPid}/children`, 'utf8');
    return Number(children.trim().split(' ')[0]);
  }

  /** Resolves with the exit code and the milliseconds until the exit. */
  async exit(timeoutMs = 120_000): Promise<{ code: number | null; tookMs: number }> {
    const from = performance.now();
    await waitFor(() => this.#child.exitCode !== null || this.#child.signalCode !== null, {
      what: `the run ends\n${this.stderr}`,
      timeoutMs,
    });
    await this.#exited;
    const tookMs = performance.now() - from;
    // The last output may arrive after the exit.
    await waitFor(() => this.#isRead, { what: 'all output of the run is read' });
    return { code: this.#child.exitCode, tookMs };
  }

  /** Living processes of any run on this state folder. */
  leftovers(): Promise<number[]> {
    return findRunProcesses({ folder: this.folder });
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      signalProcess(-this.npmPid, 'SIGTERM');
      await this.exit();
    }
  }
}

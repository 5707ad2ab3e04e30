// Keeps the processes of a run alive: it starts a dead process again at once, later with growing pauses. It knows how
// to start and end the processes, but not what they do.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { ServerCommand } from '../postgres/postgres-server.ts';
import { signalProcess } from './run-processes.ts';

export interface ProcessSpec extends ServerCommand {
  /** The name for people: `api-2`. */
  name: string;
  /** The name in the lines on standard output: `api`. */
  role: string;
  env: NodeJS.ProcessEnv;
  /** Where its health is, for the lines on standard output. */
  health?: string;
  /** The signal for an orderly end. */
  endSignal: NodeJS.Signals;
  /** How long the orderly end may take before SIGKILL. */
  endMs: number;
  /** Called before each start: cleans up after a process that died. */
  beforeStart?: () => Promise<void>;
  /** Called with each line that the process writes, to either stream. */
  onLine?: (line: string) => void;
}

export interface SupervisorEvents {
  onStarted(spec: ProcessSpec, pid: number): void;
  onDied(spec: ProcessSpec, how: string, lastLines: readonly string[]): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** After a life this long the count of deaths starts again. */
const STABLE_AFTER_MS = 10_000;

/** The pause, in milliseconds, before the start after the n-th consecutive death (from 1). */
export function pauseMs(deaths: number): number {
  return deaths <= 1 ? 0 : Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (deaths - 2));
}

export class Supervisor {
  readonly #events: SupervisorEvents;
  readonly #keepers = new Map<string, Keeper>();
  #phase: 'running' | 'ending' = 'running';

  constructor(events: SupervisorEvents) {
    this.#events = events;
  }

  /** Starts a process and keeps it alive until `end`. Does nothing after `end` was called. */
  keep(spec: ProcessSpec): void {
    if (this.#phase === 'ending') return;
    const keeper = new Keeper(spec, this.#events);
    this.#keepers.set(spec.name, keeper);
    keeper.start();
  }

  /** Ends the processes of these roles, each within its own time limit. Resolves when they are gone. */
  async end(roles: readonly string[]): Promise<void> {
    this.#phase = 'ending';
    const keepers = [...this.#keepers.values()].filter(({ spec }) => roles.includes(spec.role));
    await Promise.all(keepers.map((keeper) => keeper.end()));
  }
}

class Keeper {
  readonly spec: ProcessSpec;
  readonly #events: SupervisorEvents;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #deaths = 0;
  #phase: 'running' | 'ending' = 'running';
  #lastLines: string[] = [];

  constructor(spec: ProcessSpec, events: SupervisorEvents) {
    this.spec = spec;
    this.#events = events;
  }

  private get isEnding(): boolean {
    return this.#phase === 'ending';
  }

  start(): void {
    this.#exited = this.#run().catch((error: unknown) => {
      this.#events.onDied(this.spec, String(error), []);
      this.#startLater();
    });
  }

  async #run(): Promise<void> {
    const { command, args, options, env } = this.spec;
    await this.spec.beforeStart?.();
    if (this.isEnding) return;
    const stdio: ('ignore' | 'pipe')[] = ['ignore', 'pipe', 'pipe'];
    const child = spawn(command, args, { ...options, env, stdio, detached: true });
    const startedAt = performance.now();
    this.#child = child;
    this.#lastLines = [];
    for (const stream of [child.stdout, child.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#keepLine(line));
    }
    if (child.pid !== undefined) this.#events.onStarted(this.spec, child.pid);
    const how = await exitOf(child);
    this.#child = undefined;
    if (this.isEnding) return;
    if (performance.now() - startedAt >= STABLE_AFTER_MS) this.#deaths = 0;
    this.#events.onDied(this.spec, how, this.#lastLines);
    this.#startLater();
  }

  #keepLine(line: string): void {
    this.#lastLines.push(line);
    if (this.#lastLines.length > 10) this.#lastLines.shift();
    this.spec.onLine?.(line);
  }

  #startLater(): void {
    if (this.isEnding) return;
    this.#deaths += 1;
    this.#timer = setTimeout(() => this.start(), pauseMs(this.#deaths));
  }

  async end(): Promise<void> {
    this.#phase = 'ending';
    clearTimeout(this.#timer);
    const pid = this.#child?.pid;
    if (pid !== undefined) signalProcess(pid, this.spec.endSignal);
    const timer = setTimeout(() => {
      if (this.#child?.pid !== undefined) signalProcess(this.#child.pid, 'SIGKILL');
    }, this.spec.endMs);
    await this.#exited;
    clearTimeout(timer);
  }
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ? `by ${signal}` : `with code ${code}`));
  });
}

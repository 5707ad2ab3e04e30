// What a development run says: lines for scripts on standard output, words for people and logs on standard error.
import { type ChildProcess, spawn } from 'node:child_process';
import { writeSync } from 'node:fs';

const BACKLOG_BYTES = 1_000_000;

export interface DevelopmentOutput {
  /** A line for scripts: `started {…}` or `ready {…}`. */
  announce(word: 'started' | 'ready', fields: object): void;
  /** Words for people. */
  say(words: string): void;
  end(): Promise<void>;
}

/**
 * Opens the output. Writing to a pipe that nobody empties blocks a process: for standard error a `cat` does it
 * for us, and what it cannot get rid of is dropped, so that no reader can stop the run.
 */
export function openOutput(env: NodeJS.ProcessEnv): DevelopmentOutput {
  process.stdout.on('error', () => undefined); // whoever read it may be gone
  const child = spawn('cat', [], { stdio: ['pipe', 2, 'ignore'], detached: true, env });
  const { stdin } = child;
  let broken = stdin === null;
  const onBroken = () => {
    broken = true;
  };
  child.on('error', onBroken);
  child.on('exit', onBroken);
  stdin?.on('error', onBroken);
  return {
    announce: (word, fields) => process.stdout.write(`${word} ${JSON.stringify(fields)}\n`),
    say(words) {
      if (stdin !== null && !broken) {
        if (stdin.writableLength < BACKLOG_BYTES) stdin.write(`${words}\n`);
        return;
      }
      try {
        writeSync(2, `${words}\n`);
      } catch {
        // nobody is left to read it
      }
    },
    end: () => endOutput(child),
  };
}

async function endOutput(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const timer = setTimeout(() => child.kill('SIGKILL'), 500);
  child.stdin?.end();
  await exited;
  clearTimeout(timer);
}

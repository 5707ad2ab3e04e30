// A process of its own that outlives its run by a moment: when the run's process ends in any way, also by
// SIGKILL, the pipe between them closes and the watchdog ends what the run left. It knows nothing else.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { endRunProcesses } from './run-processes.ts';

/** Starts the watchdog of a run. It is not marked as the run's own; `end()` it when nothing is left to end. */
export function startWatchdog(folder: string, runId: string, graceMs = 3_000): { end(): Promise<void> } {
  let ended = false;
  let child: ChildProcess;
  const start = () => {
    const file = fileURLToPath(import.meta.url);
    child = spawn(process.execPath, [file, folder, runId, String(graceMs)], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    child.stdin?.on('error', () => undefined); // it may be killed: then the next one has a pipe of its own
    child.on('error', () => undefined);
    child.on('exit', () => {
      if (!ended) setTimeout(start, 500).unref();
    });
    child.unref();
  };
  start();
  return {
    async end() {
      ended = true;
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
      child.ref(); // else the event loop may run empty before the exit is seen
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder = '', runId = '', graceMs = '3000'] = process.argv.slice(2);
  process.stdin.resume();
  process.stdin.on('close', () => {
    endRunProcesses({ folder, runId }, Number(graceMs)).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}

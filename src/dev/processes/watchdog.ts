// A process that outlives its run by a moment. When the run's process ends in any way, even by SIGKILL, the pipe between
// them closes, and the watchdog ends the remaining processes of the run.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { endRunProcesses } from './run-processes.ts';

/** Starts the watchdog of a run, without the run's mark. Call `end()` when no process of the run is left. */
export function startWatchdog(folder: string, runId: string, graceMs = 3_000): { end(): Promise<void> } {
  let ended = false;
  let child: ChildProcess;
  const start = () => {
    const file = fileURLToPath(import.meta.url);
    child = spawn(process.execPath, [file, folder, runId, String(graceMs)], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    });
    child.stdin?.on('error', () => undefined); // if it is killed, the next watchdog has its own pipe
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
      child.ref(); // otherwise the process could end before it sees the exit
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

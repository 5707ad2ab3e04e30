// What a development run prints: lines for scripts on standard output, logs and text for people on standard error.
import { type ChildProcess, spawn } from 'node:child_process';
import { writeSync } from 'node:fs';

/** The fields of the line `ready` (docs/contract/development.md). */
export interface Ready {
  api: string;
  apis: string[];
  organizationId: string;
  projectId: string;
  credential: string;
  readCredential: string;
  ownerToken: string;
  tokens: { member: string; viewer: string; expired: string; otherOwner: string };
  databaseUrl: string;
  kubeconfig?: string;
}

const BACKLOG_BYTES = 1_000_000;

export interface DevelopmentOutput {
  /** Prints a line for scripts: `started {…}` or `ready {…}`. */
  announce(word: 'started' | 'ready', fields: object): void;
  /** Prints text for people. */
  print(text: string): void;
  end(): Promise<void>;
}

/**
 * Opens the output. A pipe whose reader has stopped blocks the process that writes to it. So a `cat` writes to standard
 * error in place of this process, and text that it cannot take is dropped: no reader can stop the run.
 */
export function openOutput(env: NodeJS.ProcessEnv): DevelopmentOutput {
  process.stdout.on('error', () => undefined); // the reader may be gone
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
    print(text) {
      if (stdin !== null && !broken) {
        if (stdin.writableLength < BACKLOG_BYTES) stdin.write(`${text}\n`);
        return;
      }
      try {
        writeSync(2, `${text}\n`);
      } catch {
        // the reader is gone
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

/** Formats a JSON log line for people: `api-1 warn  the message {"more":"fields"}`. Other lines stay as they are. */
export function describeLogLine(name: string, line: string): string {
  try {
    const { level, msg, time: _time, role: _role, pid: _pid, err, ...fields } = JSON.parse(line);
    const more = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
    const error = err ? ` ${err.stack ?? err.message ?? JSON.stringify(err)}` : '';
    return `${name} ${String(level).padEnd(5)} ${msg ?? ''}${more}${error}`;
  } catch {
    return `${name} ${line}`;
  }
}

/**
 * Formats the address, a link that signs in to the dashboard, a credential, the kubeconfig, and three commands to try. `toolsFolder` has kubectl, if it is not
 * on PATH.
 */
export function describeReady(ready: Ready, toolsFolder?: string): string {
  const { api, credential, kubeconfig, ownerToken } = ready;
  const lines = [
    '',
    `Beatkeeper is ready at ${api} (first steps: ${api}/docs/quickstart, all of the API: ${api}/docs).`,
    `  dashboard   ${api}/sign-in#token=${ownerToken}`,
    `  credential  ${credential}`,
    ...(kubeconfig ? [`  kubeconfig  ${kubeconfig}`] : []),
    '',
    'Try:',
    ...(kubeconfig ? clusterCommands(kubeconfig, toolsFolder) : apiCommands(ready)),
    '',
  ];
  return lines.join('\n');
}

function clusterCommands(kubeconfig: string, toolsFolder?: string): string[] {
  return [
    ...(toolsFolder ? [`  export PATH=$PATH:${toolsFolder}`] : []),
    `  export KUBECONFIG=${kubeconfig}`,
    '  kubectl apply -f examples/',
    `  curl "$(kubectl get secret queue-worker-beat -o jsonpath='{.data.url}' | base64 -d)"`,
    '  kubectl get monitors --watch',
  ];
}

function apiCommands({ api, credential }: Ready): string[] {
  const call = `curl -s -H 'Authorization: Bearer ${credential}'`;
  const body = '{"monitorId":"hello","name":"Hello","intervalSeconds":60,"graceSeconds":60}';
  return [
    `  ${call} -H 'Idempotency-Key: hello-1' -H 'Content-Type: application/json' -d '${body}' ${api}/v1/monitors`,
    '  curl <publishUrl from the answer>',
    `  ${call} ${api}/v1/monitors/hello`,
  ];
}

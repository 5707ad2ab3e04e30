// Jobs that end when and as the test says: each container tells this machine the name of its Job, and waits for its exit code. So
// no test guesses how long a pod takes to start.
import { createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { listen } from '../support/listen.ts';
import { waitFor } from '../support/wait-for.ts';
import { HOST_ADDRESS, IMAGE } from './cluster.ts';

export interface ToldContainer {
  end(exitCode: number): void;
}

export interface ToldJobs {
  /** The template of a pod whose one container is told, with these fields of it instead. */
  template(container?: object, pod?: object): object;
  /** The next container of the Job, when it runs. */
  next(job: string): Promise<ToldContainer>;
  /** All containers of Jobs with such names end at once with success, those that come later too. */
  let(names: RegExp): void;
  close(): Promise<void>;
}

/** It ends at once when it is killed. Without an answer it fails with a code of its own. */
const SCRIPT =
  'trap "exit 143" TERM; exec 3<>/dev/tcp/$HOST/$PORT && echo "$JOB" >&3 && read -r code <&3 && exit "$code"; exit 97';

export async function startToldJobs(): Promise<ToldJobs> {
  const waiting: { job: string; socket: Socket }[] = [];
  const free: RegExp[] = [];
  const end = (socket: Socket, exitCode: number) => socket.end(`${exitCode}\n`);
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy()); // its container was killed
    createInterface(socket).once('line', (job) => {
      if (free.some((names) => names.test(job))) end(socket, 0);
      else waiting.push({ job, socket });
    });
  });
  const { port, close } = await listen(server, { host: HOST_ADDRESS });
  return {
    template: (container = {}, pod = {}) => templateOf(port, container, pod),
    next: (job) =>
      waitFor(
        () => {
          const place = waiting.findIndex((one) => one.job === job);
          const [found] = place < 0 ? [] : waiting.splice(place, 1);
          return found && { end: (exitCode) => end(found.socket, exitCode) };
        },
        { what: `a container of Job ${job} runs`, timeoutMs: 300_000 },
      ),
    let: (names) => {
      free.push(names);
      for (const { job, socket } of waiting) if (names.test(job)) end(socket, 0);
    },
    close,
  };
}

function templateOf(port: number, container: object, pod: object): object {
  const jobName = { fieldRef: { fieldPath: "metadata.labels['batch.kubernetes.io/job-name']" } };
  const told = {
    name: 'main',
    image: `${IMAGE.repository}:${IMAGE.first}`,
    imagePullPolicy: 'Never',
    command: ['bash', '-c', SCRIPT],
    env: [
      { name: 'HOST', value: HOST_ADDRESS },
      { name: 'PORT', value: `${port}` },
      { name: 'JOB', valueFrom: jobName },
    ],
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  };
  return {
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [{ ...told, ...container }],
      ...pod,
    },
  };
}

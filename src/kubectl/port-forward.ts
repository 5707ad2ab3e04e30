// A port of this machine that leads to a pod, through the API server: what `kubectl port-forward` does. One websocket for
// each connection, because the protocol carries one.
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import type { KubeConfig } from '@kubernetes/client-node';
import type { Cluster } from './cluster.ts';
import { PODS, type PodObject, SERVICES, type ServiceObject } from './objects.ts';
import { attempt, Refusal } from './refusal.ts';

export interface Forward {
  /** On 127.0.0.1. */
  port: number;
  /** The Service says that it speaks https. */
  isTls: boolean;
  /** Why the last connection failed; undefined if none has. */
  fault(): string | undefined;
  close(): Promise<void>;
}

export interface ServiceName {
  namespace: string;
  name: string;
}

export interface ForwardOptions {
  /** 0, the default, picks a free one. */
  port?: number;
  /** Called for each connection that fails. */
  onFault?: (sentence: string) => void;
}

/**
 * Opens a port that leads to a ready pod of the Service. Throws a Refusal if there is no such Service or pod, or no right to
 * see them.
 */
export async function forwardService(
  cluster: Cluster,
  target: ServiceName,
  options: ForwardOptions = {},
): Promise<Forward> {
  const { name, namespace } = target;
  const service = await attempt(
    {
      what: `read the Service ${name} in the namespace ${namespace}`,
      notFound: `There is no Service ${name} in the namespace ${namespace}: state the release with --release <namespace>/<name>.`,
    },
    () => cluster.client.get(SERVICES, target),
  );
  const findTarget = async (): Promise<PodPort> => {
    const pod = await findPod(cluster, target, service);
    return { namespace, pod: pod.metadata.name, port: portOf(service, pod) };
  };
  const [first] = service.spec?.ports ?? [];
  const isTls = first?.appProtocol === 'https' || first?.name === 'https';
  const targets = new Targets(await findTarget(), findTarget);
  return { isTls, ...(await listen(cluster.config, targets, options)) };
}

/** The pod that connections go to; another one after a fault, because pods are replaced. */
class Targets {
  #current: PodPort | undefined;
  readonly #find: () => Promise<PodPort>;

  constructor(first: PodPort, find: () => Promise<PodPort>) {
    this.#current = first;
    this.#find = find;
  }

  async current(): Promise<PodPort> {
    this.#current ??= await this.#find();
    return this.#current;
  }

  drop(): void {
    this.#current = undefined;
  }
}

interface PodPort {
  namespace: string;
  pod: string;
  port: number;
}

async function findPod(
  { client }: Cluster,
  { namespace, name }: ServiceName,
  { spec }: ServiceObject,
): Promise<PodObject> {
  const labelSelector = Object.entries(spec?.selector ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
  const { items } = await attempt({ what: `list pods in the namespace ${namespace}` }, () =>
    client.list(PODS, { namespace, labelSelector }),
  );
  const ready = items.find(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined &&
      status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'),
  );
  if (ready !== undefined && labelSelector !== '') return ready;
  throw new Refusal(
    `No pod of the Service ${name} in the namespace ${namespace} is ready: look at them with \`kubectl get pods -n ${namespace}\`.`,
  );
}

/** The port of the container: a Service names it by number or by the container's own name for it. */
function portOf({ spec }: ServiceObject, pod: PodObject): number {
  const { targetPort, port } = spec?.ports?.[0] ?? { port: 80 };
  if (typeof targetPort !== 'string') return targetPort ?? port;
  const ports = pod.spec?.containers?.flatMap((container) => container.ports ?? []) ?? [];
  return ports.find(({ name }) => name === targetPort)?.containerPort ?? port;
}

interface PodPort {
  namespace: string;
  pod: string;
  port: number;
}

async function listen(
  config: KubeConfig,
  targets: Targets,
  { port = 0, onFault }: ForwardOptions,
): Promise<Omit<Forward, 'isTls'>> {
  const sockets = new Set<Socket>();
  let fault: string | undefined;
  const report = (sentence: string): void => {
    fault = sentence;
    targets.drop();
    onFault?.(sentence);
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    connect(config, targets, socket, report).catch((error: Error) => {
      report(error.message);
      socket.destroy();
    });
  });
  await startListening(server, port);
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    fault: () => fault,
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

async function startListening(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    throw new Refusal(
      `Port ${port} cannot be used: state another one with --port, or none to get a free one.`,
    );
  }
}

/** Throws a Refusal if the connection cannot be opened; what the node says of it later goes to `report`. */
async function connect(
  config: KubeConfig,
  targets: Targets,
  socket: Socket,
  report: (sentence: string) => void,
): Promise<void> {
  const target = await targets.current();
  const { namespace, pod, port } = target;
  const fromPod = new PassThrough();
  const errors = new PassThrough();
  fromPod.pipe(socket);
  errors.on('data', (data: Buffer) => {
    if (data.length > 0) report(describeFault(data.toString().trim(), target));
  });
  const { PortForward } = await import('@kubernetes/client-node');
  const opened = await new PortForward(config)
    .portForward(namespace, pod, [port], fromPod, errors, socket)
    .catch((error: unknown) => {
      // It rejects with an event whose message is that of the upgrade, such as `Unexpected server response: 403`.
      throw new Refusal(
        describeFault(String((error as { message?: unknown } | null)?.message ?? error), target),
      );
    });
  const websocket = typeof opened === 'function' ? opened() : opened;
  if (websocket === null) throw new Refusal(describeFault('the connection ended', target));
  websocket.onclose = () => fromPod.end();
  socket.once('close', () => websocket.close());
  if (socket.destroyed) websocket.close();
}

function describeFault(message: string, { namespace, pod }: PodPort): string {
  if (message.includes('403')) {
    return `You may not forward a port to the pod ${pod}: ask for the right to create pods/portforward in the namespace ${namespace}.`;
  }
  return `The port of the pod ${pod} in the namespace ${namespace} cannot be forwarded: look at the pod with \`kubectl describe pod\` (${message}).`;
}

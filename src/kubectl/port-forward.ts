// A port of this machine that leads to a pod, through the API server: what `kubectl port-forward` does. One websocket for
// each connection, because the protocol carries one.
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { type KubeConfig, PortForward } from '@kubernetes/client-node';
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

/**
 * Opens a port that leads to a ready pod of the Service. `port` 0 picks a free one. Throws a Refusal if there is no such
 * Service or pod, or no right to see them.
 */
export async function forwardService(cluster: Cluster, target: ServiceName, port = 0): Promise<Forward> {
  const { name, namespace } = target;
  const service = await attempt(
    {
      what: `read the Service ${name} in the namespace ${namespace}`,
      notFound: `There is no Service ${name} in the namespace ${namespace}: state the release with --release <namespace>/<name>.`,
    },
    () => cluster.client.get(SERVICES, target),
  );
  const pod = await findPod(cluster, target, service);
  const podPort = { namespace, pod: pod.metadata.name, port: portOf(service, pod) };
  const [first] = service.spec?.ports ?? [];
  const isTls = first?.appProtocol === 'https' || first?.name === 'https';
  return { isTls, ...(await listen(cluster.config, podPort, port)) };
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

async function listen(config: KubeConfig, target: PodPort, port: number): Promise<Omit<Forward, 'isTls'>> {
  const sockets = new Set<Socket>();
  let fault: string | undefined;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    connect(config, target, socket).catch((error: unknown) => {
      fault = describeFault(error, target);
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
    throw new Refusal(`Port ${port} is taken: state another one with --port, or none to get a free one.`);
  }
}

async function connect(config: KubeConfig, target: PodPort, socket: Socket): Promise<void> {
  const fromPod = new PassThrough();
  fromPod.pipe(socket);
  const forward = new PortForward(config);
  const opened = await forward.portForward(
    target.namespace,
    target.pod,
    [target.port],
    fromPod,
    null,
    socket,
  );
  const websocket = typeof opened === 'function' ? opened() : opened;
  if (websocket === null) throw new Error('the connection ended');
  websocket.onclose = () => fromPod.end();
  socket.once('close', () => websocket.close());
  if (socket.destroyed) websocket.close();
}

/** The client rejects with an event whose message is that of the upgrade, such as `Unexpected server response: 403`. */
function describeFault(error: unknown, { namespace, pod }: PodPort): string {
  const message = String((error as { message?: unknown } | null)?.message ?? error);
  if (message.includes('403')) {
    return `You may not forward a port to the pod ${pod}: ask for the right to create pods/portforward in the namespace ${namespace}.`;
  }
  return `The port of the pod ${pod} in the namespace ${namespace} cannot be forwarded (${message}).`;
}

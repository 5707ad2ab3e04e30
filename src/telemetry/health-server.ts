// Serves /livez, /readyz and /metrics on a port of their own, so that who may call the API need not see them, and an api
// that has too much to do still answers its probes. From before the start of the role until the end of the process. It
// needs no sign-in, so whoever reaches it must cost the process little and keep nobody else out.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { OnceASecond } from './once-a-second.ts';
import type { HealthReport } from './readiness.ts';
import type { Telemetry } from './telemetry.ts';

/** The kubelet opens one for each probe, Prometheus keeps one open. */
const MOST_CONNECTIONS = 64;
/** A probe is some hundred bytes of the same network. */
const OPTIONS = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
};
/** Of a connection on which nothing moves. */
const IDLE_MS = 10_000;

export interface HealthServer {
  port: number;
  close(): Promise<void>;
}

/** Listens on `host`:`port` (0 picks a free port). Rejects if the port is taken. */
export async function startHealthServer(
  { host, port }: { host: string; port: number },
  telemetry: Telemetry,
): Promise<HealthServer> {
  const { registry, readiness } = telemetry;
  const metrics = new OnceASecond(() => registry.metrics());
  const server = createServer(OPTIONS, (request, response) => {
    answer(request, response, { registry, readiness, metrics }).catch((error: unknown) => {
      telemetry.log.warn({ err: error }, 'A health request failed.');
      response.destroy();
    });
  });
  server.setTimeout(IDLE_MS);
  keepNewest(server);
  server.listen(port, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Ends the oldest connection for one too many: to refuse the newest would let idle ones keep the probes out. */
function keepNewest(server: Server): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size <= MOST_CONNECTIONS || !oldest) return;
    open.delete(oldest);
    oldest.destroy();
  });
}

interface Answers extends Pick<Telemetry, 'registry' | 'readiness'> {
  metrics: OnceASecond<string>;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { registry, readiness, metrics }: Answers,
): Promise<void> {
  const path = request.url?.split('?')[0];
  if (path === '/livez') return sendReport(response, await readiness.readLife());
  if (path === '/readyz') return sendReport(response, await readiness.readReadiness());
  if (path === '/metrics') return send(response, 200, await metrics.get(), registry.contentType);
  send(response, 404, 'Not found. This port serves /livez, /readyz and /metrics.\n');
}

function sendReport(response: ServerResponse, report: HealthReport): void {
  const isReady = report.status === 'ok' || report.status === 'degraded';
  send(response, isReady ? 200 : 503, `${JSON.stringify(report)}\n`, 'application/json');
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8') {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
}

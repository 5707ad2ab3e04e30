// Serves /livez, /readyz and /metrics for the roles without an HTTP port of their own; `api` serves them itself.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Telemetry } from './telemetry.ts';

export interface HealthServer {
  port: number;
  close(): Promise<void>;
}

/** Listens on `host`:`port` (0 picks a free port). Rejects if the port is taken. */
export async function startHealthServer(
  { host, port }: { host: string; port: number },
  telemetry: Telemetry,
): Promise<HealthServer> {
  const server = createServer((request, response) => {
    answer(request, response, telemetry).catch((error: unknown) => {
      telemetry.log.warn({ err: error }, 'A health request failed.');
      response.destroy();
    });
  });
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

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { registry, readiness }: Telemetry,
): Promise<void> {
  const path = request.url?.split('?')[0];
  if (path === '/livez') return sendFaults(response, await readiness.findVitalFaults());
  if (path === '/readyz') return sendFaults(response, await readiness.findFaults());
  if (path === '/metrics') return send(response, 200, await registry.metrics(), registry.contentType);
  send(response, 404, 'Not found. This port serves /livez, /readyz and /metrics.\n');
}

function sendFaults(response: ServerResponse, found: Record<string, string>) {
  const faults = Object.entries(found);
  const lines = faults.map(([name, fault]) => `${name}: ${fault}\n`).join('');
  send(response, faults.length === 0 ? 200 : 503, lines || 'ok\n');
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8') {
  response.writeHead(status, { 'content-type': type }).end(body);
}

// Serves /livez, /readyz and /metrics on a port of their own, so that who may call the API need not see them, and an api
// that has too much to do still answers its probes. From before the start of the role until the end of the process.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { HealthReport } from './readiness.ts';
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
  if (path === '/livez') return sendReport(response, await readiness.readLife());
  if (path === '/readyz') return sendReport(response, await readiness.readReadiness());
  if (path === '/metrics') return send(response, 200, await registry.metrics(), registry.contentType);
  send(response, 404, 'Not found. This port serves /livez, /readyz and /metrics.\n');
}

function sendReport(response: ServerResponse, report: HealthReport): void {
  send(response, report.status === 'ok' ? 200 : 503, `${JSON.stringify(report)}\n`, 'application/json');
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8') {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
}

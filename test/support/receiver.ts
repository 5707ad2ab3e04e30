// Webhook receivers on loopback for tests: real HTTP(S) servers, and raw sockets for the ones that misbehave.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net';

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The port of the connection's other end: the same for requests on one connection. */
  remotePort: number;
}

export interface Receiver {
  port: number;
  requests: ReceivedRequest[];
  /** Connections accepted so far. */
  connections(): number;
  close(): Promise<void>;
}

const fixture = (name: string): string =>
  readFileSync(new URL(`certificates/${name}`, import.meta.url), 'utf8');

/** Trust this to trust the receivers with TLS: names `receiver.test`, `*.receiver.test`, `127.0.0.1`. */
export const RECEIVER_CA = fixture('receiver-certificate.pem');

export type Answer = (request: ReceivedRequest, ...rest: Parameters<RequestListener>) => void;

export interface ListenAddress {
  host: string;
  /** 0 picks a free one. */
  port: number;
}

const ANY_PORT: ListenAddress = { host: '127.0.0.1', port: 0 };

export function startReceiver(answer: Answer, at = ANY_PORT): Promise<Receiver> {
  return listen((listener) => createServer(listener), answer, at);
}

export function startTlsReceiver(answer: Answer): Promise<Receiver> {
  const tls = { cert: RECEIVER_CA, key: fixture('receiver-key.pem') };
  return listen((listener) => createTlsServer(tls, listener), answer, ANY_PORT);
}

/** A receiver that speaks what the test writes on the socket. */
export async function startRawReceiver(onSocket: (socket: Socket) => void): Promise<Receiver> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => socket.destroy());
    onSocket(socket);
  });
  return opened(server, [], ANY_PORT);
}

async function listen(
  create: (listener: RequestListener) => Server,
  answer: Answer,
  at: ListenAddress,
): Promise<Receiver> {
  const requests: ReceivedRequest[] = [];
  const server = create((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const received = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        remotePort: request.socket.remotePort ?? 0,
      };
      requests.push(received);
      answer(received, request, response);
    });
  });
  return opened(server, requests, at);
}

async function opened(server: TcpServer, requests: ReceivedRequest[], at: ListenAddress): Promise<Receiver> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on('connection', (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(at.port, at.host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    connections: () => accepted,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

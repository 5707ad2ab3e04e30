// The webhook receiver of tests and benchmarks: a real HTTP or HTTPS server that answers as the test says and keeps each
// request; and a raw socket for receivers that misbehave.
import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { type Listening, listen } from './listen.ts';

export interface ReceivedRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The sender's port: the same for requests on one connection. */
  remotePort: number;
}

export interface Receiver extends Listening {
  /** Its address with the path `/hook`. */
  url: string;
  requests: ReceivedRequest[];
}

export type Answer = (response: ServerResponse, received: ReceivedRequest, request: IncomingMessage) => void;

/** Answers with this status and no body. */
export const status =
  (code: number): Answer =>
  (response) =>
    response.writeHead(code).end();

export const ok = status(204);

export interface ReceiverOptions {
  /** Default 127.0.0.1. */
  host?: string;
  /** Default: a free one. */
  port?: number;
  tls?: boolean;
  /** False, for benchmarks: `requests` stays empty. */
  keepsRequests?: boolean;
}

const certificate = (name: string): string =>
  readFileSync(new URL(`certificates/${name}`, import.meta.url), 'utf8');

/** The CA of the receivers with TLS: for `receiver.test`, `*.receiver.test` and `127.0.0.1`. */
export const RECEIVER_CA = certificate('receiver-certificate.pem');

/** Starts a receiver that calls `answer` after it has read a whole request. */
export async function startReceiver(answer: Answer = ok, options: ReceiverOptions = {}): Promise<Receiver> {
  const { tls = false, keepsRequests = true } = options;
  const requests: ReceivedRequest[] = [];
  const listener: RequestListener = (request, response) => {
    text(request).then(
      (body) => {
        const { method = '', url: path = '', headers, socket } = request;
        const received = { method, path, headers, body, remotePort: socket.remotePort ?? 0 };
        if (keepsRequests) requests.push(received);
        answer(response, received, request);
      },
      () => undefined, // the sender ended before the request did
    );
  };
  const server = tls
    ? createTlsServer({ cert: RECEIVER_CA, key: certificate('receiver-key.pem') }, listener)
    : createServer(listener);
  return await open(server, requests, options);
}

/** Starts a receiver that sends what the test writes on the socket. It keeps no requests. */
export async function startRawReceiver(onSocket: (socket: Socket) => void): Promise<Receiver> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => socket.destroy());
    onSocket(socket);
  });
  return await open(server, [], {});
}

async function open(
  server: Server,
  requests: ReceivedRequest[],
  { host = '127.0.0.1', port, tls }: ReceiverOptions,
): Promise<Receiver> {
  const listening = await listen(server, { host, port });
  const url = `${tls ? 'https' : 'http'}://${host}:${listening.port}/hook`;
  return { ...listening, url, requests };
}

/** The fields of an alert's body that tests read. */
export interface AlertBody {
  type: string;
  data: {
    projectName: string;
    sequence: number;
    incident: { incidentId: string; monitorId: string; kind: string; state: string };
    monitor: { monitorId: string };
  };
}

/**
 * The body of a request, verified by the library of Standard Webhooks. Throws when this secret made none of the signatures,
 * or the request is older than five minutes.
 */
export function verifyWebhook(request: ReceivedRequest | undefined, signingSecret: string): unknown {
  if (!request) throw new Error('There is no request.');
  const { headers, body } = request;
  const key = Buffer.from(signingSecret.replace(/^sigcb_v1_/, ''), 'base64url').toString('base64');
  return new Webhook(key).verify(body, headers as Record<string, string>);
}

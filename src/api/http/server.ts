// The HTTP server under the application: its time limits, and how many requests one connection may have open.
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { CountedRequest } from './counted-request.ts';
import { ReadingTurns } from './reading-turns.ts';

/** Of one connection, without an answer. The contract promises them to clients that pipeline. */
const MAX_OPEN_REQUESTS = 64;
/** For the answers on a connection that is not read any more. Beats are answered sooner. */
const LAST_ANSWERS_MS = 12_000;
/** For an answer that goes out before its request has come, or instead of it. */
export const EARLY_ANSWER_MS = 2_000;
/** As long as headers may take. */
const HANDSHAKE_MS = 10_000;
/** Longer than the slowest request and the longest held call. */
const IDLE_MS = 65_000;

/** Of a connection. */
const openRequests = new WeakMap<Socket, number>();
/** Connections that are not read any more. */
const ending = new WeakSet<Socket>();
/** Of requests, in ms. */
const waited = new WeakMap<IncomingMessage, number>();
const turnsOf = new WeakMap<Server, ReadingTurns>();
const countOf = (socket: Socket) => openRequests.get(socket) ?? 0;
const isFull = (socket: Socket) => countOf(socket) >= MAX_OPEN_REQUESTS;

/**
 * One request too many looks like an upgrade, because that alone makes the parser stop amid what was read. A flood fills
 * the buffers of its connections, and each turn of the event loop reads a thousand requests from every one, before any of
 * them has to wait: they would fill the memory, and the turn would take longer than a beat may wait.
 */
class BoundedRequest extends CountedRequest {
  declare stopsParser: boolean;

  get upgrade(): boolean {
    return this.stopsParser;
  }

  /** The parser sets it before the request is counted. */
  set upgrade(asked: boolean | null) {
    this.stopsParser = asked === true || isFull(this.socket);
  }
}

const OPTIONS = {
  IncomingMessage: BoundedRequest,
  // Nobody else gets an upgrade.
  shouldUpgradeCallback: ({ socket }: IncomingMessage) => isFull(socket),
  // docs/contract/beats.md: headers 10 s, body 30 s, idle 65 s. The beat path keeps the part of a body that came
  // within 30 s, so it must end first.
  headersTimeout: 10_000,
  requestTimeout: 32_000,
  keepAliveTimeout: IDLE_MS,
  connectionsCheckingInterval: 1_000,
  // The problem plug-in refuses a request without Host, in the form of every refusal.
  requireHostHeader: false,
};

/**
 * `handle` answers requests. Connections that send many take turns; one with too many is not read any more and ends after
 * the answers. With `tls` the server speaks https.
 */
export function makeServer(handle: RequestListener, tls?: SecureContextOptions): Server {
  const turns = new ReadingTurns();
  const listener: RequestListener<typeof BoundedRequest> = (request, response) => {
    const { socket } = request;
    request.turns = turns;
    openRequests.set(socket, countOf(socket) + 1);
    turns.count(request, countOf(socket));
    const ms = turns.waitedMs(request);
    if (ms > 0) waited.set(request, ms);
    response.once('close', () => {
      openRequests.set(socket, countOf(socket) - 1);
      if (ending.has(socket) && countOf(socket) === 0) socket.destroySoon();
    });
    // Node loses what it has read behind such a request: its sender must not take a later answer for that one's.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    if (!hasBody(request)) {
      handle(request, response);
      return;
    }
    endIfEarly(request, response);
    turns.defer(request, () => handle(request, response));
  };
  const server = tls === undefined ? createServer(OPTIONS, listener) : makeTlsServer(listener, tls);
  turnsOf.set(server, turns);
  // Also with an answer under way: a client that does not read it would keep its connection for ever.
  server.setTimeout(IDLE_MS);
  server.on('upgrade', ({ socket }) => {
    turns.release(socket);
    endAfterAnswers(socket);
  });
  // A client that has closed its half of the connection waits for the answer.
  Object.assign(server, { httpAllowHalfOpen: true });
  // An unknown expectation is ignored (RFC 9110 10.1.1): no beat is lost for it.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  return server;
}

function makeTlsServer(listener: RequestListener<typeof BoundedRequest>, tls: SecureContextOptions): Server {
  const server = createTlsServer(
    { ...OPTIONS, ...tls, handshakeTimeout: HANDSHAKE_MS, allowHalfOpen: true },
    listener,
  );
  // Without a session there is nobody who could read an answer.
  server.removeAllListeners('tlsClientError').on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

/** How long the request may have lain unread, in ms, because its connection had to wait. */
export function waitedMs(request: IncomingMessage): number {
  return waited.get(request) ?? 0;
}

/** What arrived before is read on each connection that had to wait. Infinity: none had to. Of `performance.now()`. */
export function readUpToAt(server: Server): number {
  return turnsOf.get(server)?.readUpToAt ?? Number.POSITIVE_INFINITY;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

/**
 * An answer that goes out before the body has come ends the connection, and nothing more is read. The socket stays for a
 * while, because the system would reset the connection for what lies unread, and the sender would lose the answer.
 */
function endIfEarly(request: BoundedRequest, response: ServerResponse): void {
  const { socket } = request;
  const { shouldKeepAlive } = response;
  response.shouldKeepAlive = false;
  request.onWhole = ({ isReadOn }) => {
    if (isReadOn) response.shouldKeepAlive = shouldKeepAlive;
    request.turns?.handle(request);
  };
  // Before Node, which would close the socket.
  response.prependOnceListener('finish', () => {
    if (request.complete) return;
    request.turns?.stop(socket);
    socket.destroySoon = () => socket.end();
    destroyIn(EARLY_ANSWER_MS, socket);
  });
}

function endAfterAnswers(socket: Socket): void {
  ending.add(socket);
  socket.on('error', () => socket.destroy());
  destroyIn(LAST_ANSWERS_MS, socket);
}

/** For a connection that may not be read any more: nobody would notice that its client has left. */
export function destroyIn(ms: number, socket: Socket): void {
  const limit = setTimeout(() => socket.destroy(), ms);
  socket.once('close', () => clearTimeout(limit));
}

// The HTTP server under the application: its time limits, and how many requests one connection may have open.
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';

/** Of one connection. The contract promises it to clients that pipeline. */
const MAX_OPEN_REQUESTS = 64;

/**
 * A connection with more requests that have no answer is cut. A flood fills the buffers of its connections, and every
 * turn of the event loop reads a thousand requests from each: without a bound a turn takes longer than a beat may wait.
 * The requests that were begun go on. `handle` answers the others.
 */
export function makeServer(handle: RequestListener): Server {
  const connections = new WeakMap<Socket, { open: number }>();
  const server = createServer(
    {
      // docs/contract/beats.md: headers 10 s, body 30 s, idle 65 s. The beat path keeps the part of a body that came
      // within 30 s, so it must end first.
      headersTimeout: 10_000,
      requestTimeout: 32_000,
      keepAliveTimeout: 65_000,
      connectionsCheckingInterval: 1_000,
      // The problem plug-in refuses a request without Host, in the form of every refusal.
      requireHostHeader: false,
    },
    (request, response) => {
      const { socket } = request;
      // The parser goes on to the end of what was read.
      if (socket.destroyed) return;
      const connection = connections.get(socket) ?? { open: 0 };
      if (connection.open === MAX_OPEN_REQUESTS) {
        socket.destroy();
        return;
      }
      if (connection.open === 0) connections.set(socket, connection);
      connection.open += 1;
      response.once('close', () => {
        connection.open -= 1;
      });
      handle(request, response);
    },
  );
  // A client that has closed its half of the connection waits for the answer.
  Object.assign(server, { httpAllowHalfOpen: true });
  // An unknown expectation is ignored (RFC 9110 10.1.1): no beat is lost for it.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  return server;
}

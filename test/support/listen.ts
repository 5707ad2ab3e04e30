// Servers of tests that listen in the process of the test.
import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface Listening {
  port: number;
  /** Connections accepted so far. */
  connections(): number;
  /** Stops listening and destroys all connections. */
  close(): Promise<void>;
}

/** Default: a free port of 127.0.0.1. */
export async function listen(server: Server, { host = '127.0.0.1', port = 0 } = {}): Promise<Listening> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on('connection', (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(port, host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => accepted,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

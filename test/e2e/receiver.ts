// A webhook receiver on this machine that pods can reach. It keeps every request, and answers 200.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';

export interface Call {
  headers: IncomingHttpHeaders;
  body: string;
}

/** The body of an event, as far as the tests look into it. */
export interface Event {
  type: string;
  data: {
    projectName: string;
    sequence: number;
    incident: { incidentId: string; kind: string; state: string };
    monitor: { monitorId: string };
  };
}

export interface Receiver {
  url: string;
  calls: Call[];
  close(): Promise<void>;
}

export async function startReceiver(host: string): Promise<Receiver> {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    text(request).then(
      (body) => {
        calls.push({ headers: request.headers, body });
        response.end();
      },
      () => undefined, // its sender ended in the middle: that is no call
    );
  });
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}/alerts`,
    calls,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The event in a call, verified by the library of the standard. Throws when its signature is wrong. */
export function verifyCall({ headers, body }: Call, signingSecret: string): Event {
  const key = Buffer.from(signingSecret.replace(/^sigcb_v1_/, ''), 'base64url').toString('base64');
  const plain = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  return new Webhook(key).verify(body, plain) as Event;
}

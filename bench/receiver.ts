// A receiver of webhooks in a process of its own. It answers 204 at once on /fast, and never on /hang. Prints its port.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const server = createServer((request, response) => {
  request.resume();
  if (request.url === '/hang') return;
  request.on('end', () => response.writeHead(204).end());
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.once('SIGINT', () => process.exit(0));

// A webhook receiver in a process of its own. It answers 204 at once on /fast, and never on /hang. Prints its port.
import { ok, startReceiver } from '../test/support/receiver.ts';

const { port } = await startReceiver(
  (response, received, request) => {
    if (received.path !== '/hang') ok(response, received, request);
  },
  { keepsRequests: false },
);
console.log(port);
process.once('SIGINT', () => process.exit(0));

// A body that its sender cuts off is the sender's fault, and no sign of a database that is away.
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import Fastify from 'fastify';
import { expect, it } from 'vitest';
import { toProblem } from '../../../src/api/http/problem.ts';

it('a body that is cut off by its sender is refused as unreadable, and not as a database that is away', async () => {
  const app = Fastify();
  const begun = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<unknown>();
  app.addHook('onRequest', async () => begun.resolve());
  app.setErrorHandler((error, _request, reply) => {
    failed.resolve(error);
    return reply.send();
  });
  app.post('/', async () => '');
  await app.listen({ host: '127.0.0.1', port: 0 });
  const sender = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  await once(sender, 'connect');
  sender.write(
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
  );
  await begun.promise;
  sender.destroy();
  expect(toProblem(await failed.promise)).toMatchObject({ code: 'validation_failed', status: 400 });
  await app.close();
});

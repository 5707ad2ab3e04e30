// Attempts against real receivers on loopback: what is sent, what is read, and the class of each fault.
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import { WebhookSender, type WebhookSenderOptions } from '../../src/delivery/webhook/webhook-sender.ts';
import { keepForTest } from '../support/keep.ts';
import {
  ok,
  RECEIVER_CA,
  type Receiver,
  startRawReceiver,
  startReceiver,
  status,
  verifyWebhook,
} from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';

const BODY = JSON.stringify({ type: 'incident.opened', data: { name: 'nächtlich ☂' } });
const SECRET = newSigningSecret();
const message = (url: string) => ({ url, webhookId: 'msg_1', body: BODY, secrets: [SECRET] });

const keep = keepForTest();

function sender(options: Partial<WebhookSenderOptions> = {}): WebhookSender {
  const hostsText = '127.0.0.1 receiver.test a.receiver.test other.test';
  return keep(
    new WebhookSender({
      allowed: parseAllowedDestinations('127.0.0.1,::1'),
      resolver: createNameResolver({ hostsText, servers: ['127.0.0.1:1'], searchDomains: [] }),
      ...options,
    }),
  );
}

const address = (receiver: Receiver, path = '/hook'): string => `http://127.0.0.1:${receiver.port}${path}`;

describe('what a receiver gets', () => {
  it('a receiver gets a signed POST of the body with the original host, path and query', async () => {
    const receiver = keep(await startReceiver((response) => response.end('thanks')));
    const result = await sender().send(message(`http://receiver.test:${receiver.port}/a/b?c=d%20e`));

    expect(result).toMatchObject({ delivered: true, gone: false, statusCode: 200, body: 'thanks' });
    expect(result.error).toBeUndefined();
    expect(result.latencyMs).toBeGreaterThanOrEqual(0);
    const [request] = receiver.requests;
    expect(request).toMatchObject({ method: 'POST', path: '/a/b?c=d%20e', body: BODY });
    expect(request?.headers).toMatchObject({
      host: `receiver.test:${receiver.port}`,
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(BODY)),
      'webhook-id': 'msg_1',
    });
  });

  it('the standardwebhooks package verifies the signature, and both of them in the overlap of a rotation', async () => {
    const receiver = keep(await startReceiver());
    const older = newSigningSecret();
    await sender().send({ ...message(address(receiver)), secrets: [SECRET, older] });

    const [request] = receiver.requests;
    for (const secret of [SECRET, older]) {
      expect(verifyWebhook(request, secret)).toEqual(JSON.parse(BODY));
    }
    expect(() => verifyWebhook(request, newSigningSecret())).toThrow('No matching signature');
  });

  it('each attempt has the same id and body, and its own timestamp', async () => {
    let nowMs = 1_700_000_000_999;
    const receiver = keep(await startReceiver());
    const attempts = sender({ now: () => nowMs });
    await attempts.send(message(address(receiver)));
    nowMs += 60_000;
    await attempts.send(message(address(receiver)));
    const seen = receiver.requests.map(({ headers, body }) => ({
      id: headers['webhook-id'],
      timestamp: headers['webhook-timestamp'],
      body,
    }));
    expect(seen).toEqual([
      { id: 'msg_1', timestamp: '1700000000', body: BODY },
      { id: 'msg_1', timestamp: '1700000060', body: BODY },
    ]);
  });

  it('an attempt ignores the proxies of the environment', async () => {
    const receiver = keep(await startReceiver());
    const proxy = keep(await startReceiver());
    const variables = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY'];
    for (const name of variables) process.env[name] = `http://127.0.0.1:${proxy.port}`;
    try {
      expect(await sender().send(message(address(receiver)))).toMatchObject({ delivered: true });
    } finally {
      for (const name of variables) delete process.env[name];
    }
    expect(proxy.connections()).toBe(0);
  });

  it('a message without a valid secret is not sent, and the error does not show the secret', async () => {
    const receiver = keep(await startReceiver());
    const send = sender().send({ ...message(address(receiver)), secrets: ['sigcb_v1_planted'] });
    await expect(send).rejects.toThrow(/^(?!.*planted)/);
    expect(receiver.connections()).toBe(0);
  });
});

describe('connections', () => {
  it('a connection is used again for the same name and addresses', async () => {
    const receiver = keep(await startReceiver((response) => response.end('ok')));
    const attempts = sender();
    for (let index = 0; index < 20; index += 1) await attempts.send(message(address(receiver)));
    // A connection rests for a turn of the event loop after each answer, so two take turns. They end after some idle
    // seconds, which a machine that stands still may cause.
    expect(receiver.connections()).toBeLessThan(10);
  });

  it('a connection that the receiver closed unseen costs no failed attempt', async () => {
    let served = 0;
    const receiver = keep(
      await startRawReceiver((socket) => {
        let requests = 0;
        socket.on('data', (chunk) => {
          if (!chunk.toString().includes('POST')) return;
          requests += 1;
          // The second request finds the connection closed.
          if (requests > 1) return socket.resetAndDestroy();
          served += 1;
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
        });
      }),
    );
    const attempts = sender();
    expect(await attempts.send(message(address(receiver)))).toMatchObject({ delivered: true });
    expect(await attempts.send(message(address(receiver)))).toMatchObject({ delivered: true });
    expect(served).toBe(2);
  });

  it('a connection goes to the next checked address when nobody listens at the first', async () => {
    const receiver = keep(await startReceiver());
    const hostsText = '127.0.0.3 two.test\n127.0.0.1 two.test';
    const attempts = sender({
      allowed: parseAllowedDestinations('127.0.0.0/8'),
      resolver: createNameResolver({ hostsText }),
    });
    expect(await attempts.send(message(`http://two.test:${receiver.port}/`))).toMatchObject({
      delivered: true,
    });
  });

  it('idle connection pools are closed when there are more than the bound', async () => {
    const receivers = await Promise.all([1, 2, 3].map(async () => keep(await startReceiver())));
    const attempts = sender({ maxPools: 2 });
    for (const receiver of [...receivers, ...receivers]) {
      expect(await attempts.send(message(address(receiver)))).toMatchObject({ delivered: true });
    }
    expect(receivers.map((receiver) => receiver.connections())).toEqual([2, 2, 2]);
  });
});

describe('TLS', () => {
  it('a certificate is verified for the name in the URL, which is also sent as SNI', async () => {
    const names: unknown[] = [];
    const receiver = keep(
      await startReceiver(
        (response, _, request) => {
          names.push((request.socket as TLSSocket).servername);
          response.end();
        },
        { tls: true },
      ),
    );
    const attempts = sender({ ca: RECEIVER_CA });
    for (const host of ['receiver.test', 'a.receiver.test', 'receiver.test.', '127.0.0.1']) {
      const result = await attempts.send(message(`https://${host}:${receiver.port}/`));
      expect(result).toMatchObject({ delivered: true, statusCode: 200 });
    }
    expect(names).toEqual(['receiver.test', 'a.receiver.test', 'receiver.test', false]);
  });

  it.each([
    ['a certificate that nobody trusts', 'receiver.test', undefined],
    ['a certificate for another name', 'other.test', RECEIVER_CA],
  ])('TLS fails for %s', async (_fault, host, ca) => {
    const receiver = keep(await startReceiver(ok, { tls: true }));
    const result = await sender({ ca }).send(message(`https://${host}:${receiver.port}/`));
    expect(result).toMatchObject({ delivered: false, error: 'tls' });
    expect(result.statusCode).toBeUndefined();
    expect(receiver.requests).toEqual([]);
  });

  it('TLS fails for a receiver that speaks plain HTTP', async () => {
    const receiver = keep(await startReceiver());
    const result = await sender().send(message(`https://127.0.0.1:${receiver.port}/`));
    expect(result).toMatchObject({ delivered: false, error: 'tls' });
  });
});

describe('answers', () => {
  it.each([
    [200, true, undefined],
    [204, true, undefined],
    [299, true, undefined],
    [301, false, 'redirect'],
    [307, false, 'redirect'],
    [400, false, undefined],
    [404, false, undefined],
    [500, false, undefined],
  ])(
    'an attempt that is answered with %i has delivered: %s, error: %s',
    async (statusCode, delivered, error) => {
      const receiver = keep(await startReceiver(status(statusCode)));
      const result = await sender().send(message(address(receiver)));
      expect(result).toMatchObject({ statusCode, delivered, gone: false });
      expect(result.error).toBe(error);
    },
  );

  it('an endpoint that answers 410 is gone', async () => {
    const receiver = keep(await startReceiver(status(410)));
    expect(await sender().send(message(address(receiver)))).toMatchObject({
      delivered: false,
      gone: true,
      statusCode: 410,
    });
  });

  it('an attempt follows no redirect', async () => {
    const inner = keep(await startReceiver((response) => response.end('secret')));
    const receiver = keep(
      await startReceiver((response) =>
        response.writeHead(302, { location: address(inner, '/metadata') }).end(),
      ),
    );
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, statusCode: 302, error: 'redirect' });
    expect(inner.connections()).toBe(0);
  });

  it.each([
    [429, '7', 7_000],
    [503, 'Tue, 14 Nov 2023 22:15:00 GMT', 100_000],
    [503, 'Tue, 14 Nov 2023 22:00:00 GMT', 0],
    [503, '86400', 3_600_000],
    [429, 'soon', undefined],
    [200, '7', undefined],
  ])('the Retry-After of an answer %i is read: %s', async (statusCode, header, retryAfterMs) => {
    const receiver = keep(
      await startReceiver((response) => response.writeHead(statusCode, { 'retry-after': header }).end()),
    );
    const attempts = sender({ now: () => 1_700_000_000_000 }); // 22:13:20 on that day
    expect((await attempts.send(message(address(receiver)))).retryAfterMs).toBe(retryAfterMs);
  });

  it('the result shows the first 1,024 bytes of the answer, without half a character and without NUL', async () => {
    const receiver = keep(
      await startReceiver((response) => response.end(`\0${'a'.repeat(1022)}ä${'b'.repeat(5000)}`)),
    );
    const { body } = await sender().send(message(address(receiver)));
    expect(body).toBe(`\uFFFD${'a'.repeat(1022)}`);
  });

  it('an early hint is ignored, and the answer after it counts', async () => {
    const receiver = keep(
      await startReceiver((response) => {
        response.writeEarlyHints({ link: '</a>; rel=preload' });
        response.writeHead(201).end('made');
      }),
    );
    expect(await sender().send(message(address(receiver)))).toMatchObject({ statusCode: 201, body: 'made' });
  });
});

describe('receivers that misbehave', () => {
  /** A raw receiver that starts its answer when the request has arrived. */
  const raw = async (answer: (socket: Socket) => void): Promise<Receiver> =>
    keep(await startRawReceiver((socket) => socket.once('data', () => answer(socket))));

  it('the attempt at a receiver that never answers ends at the deadline, with its connection', async () => {
    let isClosed = false;
    const receiver = await raw((socket) => socket.on('close', () => (isClosed = true)));
    const result = await sender({ timeoutMs: 200 }).send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'timeout' });
    expect(result.latencyMs).toBeGreaterThanOrEqual(200);
    await waitFor(() => isClosed, { what: 'the connection to close' });
  });

  it('the attempt at a receiver that drips its headers ends at the deadline', async () => {
    const receiver = await raw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx-drip: ');
      const drip = setInterval(() => socket.write('a'), 20);
      socket.on('close', () => clearInterval(drip));
    });
    const result = await sender({ timeoutMs: 300 }).send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'timeout' });
  });

  it('the status counts when a receiver drips its body', async () => {
    let isClosed = false;
    const receiver = await raw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n');
      const drip = setInterval(() => socket.write('a'), 20);
      socket.on('close', () => {
        clearInterval(drip);
        isClosed = true;
      });
    });
    const send = (timeoutMs: number) => sender({ timeoutMs }).send(message(address(receiver)));
    const first = await send(300);
    // On a slow machine the status itself may arrive after the deadline.
    const result = first.error === 'timeout' ? await send(10_000) : first;
    expect(result).toMatchObject({ delivered: true, statusCode: 200 });
    expect(result.body).toMatch(/^a+$/);
    await waitFor(() => isClosed, { what: 'the connection to close' });
  });

  it('1,024 bytes are read from a body without an end', async () => {
    let isClosed = false;
    const receiver = await raw((socket) => {
      socket.on('close', () => (isClosed = true));
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const pour = (): void => {
        while (!isClosed && socket.write('x'.repeat(65_536)));
      };
      socket.on('drain', pour);
      pour();
    });
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: true, statusCode: 200, body: 'x'.repeat(1024) });
    await waitFor(() => isClosed, { what: 'the connection to close' });
  });

  it('the status counts when the body breaks off', async () => {
    const receiver = await raw((socket) => {
      socket.end('HTTP/1.1 500 Oops\r\ncontent-length: 900\r\n\r\npartial');
    });
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, statusCode: 500, body: 'partial' });
  });

  it('a receiver that resets a new connection is asked once', async () => {
    const receiver = await raw((socket) => socket.resetAndDestroy());
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'connection_reset' });
    expect(receiver.connections()).toBe(1);
  });

  it.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', 'protocol'],
    ['endless headers', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(100_000)}\r\n\r\n`, 'protocol'],
    ['nothing and closes', '', 'connection_reset'],
  ])('an attempt fails with its class when the receiver answers %s', async (_name, answer, error) => {
    const receiver = await raw((socket) => socket.end(answer));
    expect(await sender().send(message(address(receiver)))).toMatchObject({ delivered: false, error });
  });

  it('an attempt at a receiver that no longer listens fails as connection_refused', async () => {
    const receiver = await startReceiver();
    await receiver.close();
    const result = await sender().send(message(address(receiver)));
    expect(result).toEqual({
      delivered: false,
      gone: false,
      error: 'connection_refused',
      latencyMs: expect.any(Number),
    });
  });

  it.each(['http://127.0.0.1:0/', 'http://127.0.0.1:1/\'"<>`{}|^?\'"<>`{}', 'http://a_b.receiver.test:1/'])(
    'an attempt at a URL without a receiver fails: %s',
    async (url) => {
      const result = await sender().send(message(url));
      expect(result.delivered).toBe(false);
      expect(['connection_refused', 'unreachable', 'destination_rejected']).toContain(result.error);
    },
  );

  it('a receiver that hangs holds up no other', async () => {
    const dead = await raw(() => {});
    const healthy = keep(await startReceiver());
    const attempts = sender({ timeoutMs: 60_000 });
    let ended = 0;
    const hanging = Array.from({ length: 50 }, async () => {
      await attempts.send(message(address(dead)));
      ended += 1;
    });
    expect(await attempts.send(message(address(healthy)))).toMatchObject({ delivered: true });
    expect(ended).toBe(0);
    await dead.close();
    await Promise.all(hanging);
  });
});

// One attempt against real receivers on loopback: what is sent, what is read, and what each fault is called.
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import { WebhookSender, type WebhookSenderOptions } from '../../src/delivery/webhook/webhook-sender.ts';
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

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function keep<T extends { close(): Promise<void> }>(opened: T): T {
  closers.push(() => opened.close());
  return opened;
}

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
  it('a signed POST of the body with the original host, path and query', async () => {
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

  it('signatures that the standardwebhooks package verifies, both of them in an overlap', async () => {
    const receiver = keep(await startReceiver());
    const older = newSigningSecret();
    await sender().send({ ...message(address(receiver)), secrets: [SECRET, older] });

    const [request] = receiver.requests;
    for (const secret of [SECRET, older]) {
      expect(verifyWebhook(request, secret)).toEqual(JSON.parse(BODY));
    }
    expect(() => verifyWebhook(request, newSigningSecret())).toThrow('No matching signature');
  });

  it('the same id and body, and a timestamp of its own, on each attempt', async () => {
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

  it('nothing through a proxy of the environment', async () => {
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

  it('refuses to send unsigned, and says no secret', async () => {
    const receiver = keep(await startReceiver());
    const send = sender().send({ ...message(address(receiver)), secrets: ['sigcb_v1_planted'] });
    await expect(send).rejects.toThrow(/^(?!.*planted)/);
    expect(receiver.connections()).toBe(0);
  });
});

describe('connections', () => {
  it('are used again for the same name and addresses', async () => {
    const receiver = keep(await startReceiver((response) => response.end('ok')));
    const attempts = sender();
    for (let index = 0; index < 20; index += 1) await attempts.send(message(address(receiver)));
    // One rests for a turn of the event loop after each answer, so two take turns. They end after some seconds of rest,
    // which a machine that stands still may bring.
    expect(receiver.connections()).toBeLessThan(10);
  });

  it('that a receiver closed unseen cost no failed attempt', async () => {
    let served = 0;
    const receiver = keep(
      await startRawReceiver((socket) => {
        let requests = 0;
        socket.on('data', (chunk) => {
          if (!chunk.toString().includes('POST')) return;
          requests += 1;
          // The second request on a connection meets one that is gone.
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

  it('go to the next checked address where nobody listens at the first', async () => {
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

  it('are bounded: idle pools go when others come', async () => {
    const receivers = await Promise.all([1, 2, 3].map(async () => keep(await startReceiver())));
    const attempts = sender({ maxPools: 2 });
    for (const receiver of [...receivers, ...receivers]) {
      expect(await attempts.send(message(address(receiver)))).toMatchObject({ delivered: true });
    }
    expect(receivers.map((receiver) => receiver.connections())).toEqual([2, 2, 2]);
  });
});

describe('TLS', () => {
  it('is verified for the name in the URL, which is also sent as SNI', async () => {
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
  ])('fails for %s', async (_fault, host, ca) => {
    const receiver = keep(await startReceiver(ok, { tls: true }));
    const result = await sender({ ca }).send(message(`https://${host}:${receiver.port}/`));
    expect(result).toMatchObject({ delivered: false, error: 'tls' });
    expect(result.statusCode).toBeUndefined();
    expect(receiver.requests).toEqual([]);
  });

  it('fails for a receiver that speaks plain HTTP on that port', async () => {
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
  ])('%i', async (statusCode, delivered, error) => {
    const receiver = keep(await startReceiver(status(statusCode)));
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ statusCode, delivered, gone: false });
    expect(result.error).toBe(error);
  });

  it('410 says that the endpoint is gone', async () => {
    const receiver = keep(await startReceiver(status(410)));
    expect(await sender().send(message(address(receiver)))).toMatchObject({
      delivered: false,
      gone: true,
      statusCode: 410,
    });
  });

  it('follows no redirect', async () => {
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
  ])('%i with Retry-After: %s', async (statusCode, header, retryAfterMs) => {
    const receiver = keep(
      await startReceiver((response) => response.writeHead(statusCode, { 'retry-after': header }).end()),
    );
    const attempts = sender({ now: () => 1_700_000_000_000 }); // 22:13:20 on that day
    expect((await attempts.send(message(address(receiver)))).retryAfterMs).toBe(retryAfterMs);
  });

  it('shows the first 1,024 bytes and no half character or NUL', async () => {
    const receiver = keep(
      await startReceiver((response) => response.end(`\0${'a'.repeat(1022)}ä${'b'.repeat(5000)}`)),
    );
    const { body } = await sender().send(message(address(receiver)));
    expect(body).toBe(`\uFFFD${'a'.repeat(1022)}`);
  });

  it('ignores an early hint and takes the answer after it', async () => {
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
  /** A raw receiver that begins its answer once the request is there. */
  const raw = async (answer: (socket: Socket) => void): Promise<Receiver> =>
    keep(await startRawReceiver((socket) => socket.once('data', () => answer(socket))));

  it('one that never answers is left at the deadline, and its connection closed', async () => {
    let isClosed = false;
    const receiver = await raw((socket) => socket.on('close', () => (isClosed = true)));
    const result = await sender({ timeoutMs: 200 }).send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'timeout' });
    expect(result.latencyMs).toBeGreaterThanOrEqual(200);
    await waitFor(() => isClosed, { what: 'the connection to close' });
  });

  it('one that drips its headers is left at the deadline', async () => {
    const receiver = await raw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nx-drip: ');
      const drip = setInterval(() => socket.write('a'), 20);
      socket.on('close', () => clearInterval(drip));
    });
    const result = await sender({ timeoutMs: 300 }).send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'timeout' });
  });

  it('one that drips its body has answered with its status', async () => {
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
    // On a slow machine the status itself may come after the deadline.
    const result = first.error === 'timeout' ? await send(10_000) : first;
    expect(result).toMatchObject({ delivered: true, statusCode: 200 });
    expect(result.body).toMatch(/^a+$/);
    await waitFor(() => isClosed, { what: 'the connection to close' });
  });

  it('one whose body has no end is read for 1,024 bytes', async () => {
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

  it('one whose body breaks off has answered with its status', async () => {
    const receiver = await raw((socket) => {
      socket.end('HTTP/1.1 500 Oops\r\ncontent-length: 900\r\n\r\npartial');
    });
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, statusCode: 500, body: 'partial' });
  });

  it('one that resets the connection is asked once', async () => {
    const receiver = await raw((socket) => socket.resetAndDestroy());
    const result = await sender().send(message(address(receiver)));
    expect(result).toMatchObject({ delivered: false, error: 'connection_reset' });
    expect(receiver.connections()).toBe(1);
  });

  it.each([
    ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', 'protocol'],
    ['endless headers', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(100_000)}\r\n\r\n`, 'protocol'],
    ['nothing and closes', '', 'connection_reset'],
  ])('one that answers %s', async (_name, answer, error) => {
    const receiver = await raw((socket) => socket.end(answer));
    expect(await sender().send(message(address(receiver)))).toMatchObject({ delivered: false, error });
  });

  it('one that listens no more', async () => {
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
    'a URL that leads to nobody: %s',
    async (url) => {
      const result = await sender().send(message(url));
      expect(result.delivered).toBe(false);
      expect(['connection_refused', 'unreachable', 'destination_rejected']).toContain(result.error);
    },
  );

  it('one of them holds up no other', async () => {
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

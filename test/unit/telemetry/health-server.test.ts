// The bounds of the port for health and metrics: whoever reaches it cannot take it from the kubelet.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Gauge } from 'prom-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type HealthServer, startHealthServer } from '../../../src/telemetry/health-server.ts';
import { createTelemetry, type Telemetry } from '../../../src/telemetry/telemetry.ts';
import { waitFor } from '../../support/wait-for.ts';

let telemetry: Telemetry;
let server: HealthServer;
let sockets: Socket[] = [];
beforeEach(async () => {
  telemetry = createTelemetry({ role: 'test', logLevel: 'silent' });
  server = await startHealthServer({ host: '127.0.0.1', port: 0 }, telemetry);
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  await server.close();
});

const get = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`);

async function openSocket(): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  socket.on('error', () => undefined);
  sockets.push(socket);
  await once(socket, 'connect');
  return socket.resume();
}

it('the port keeps its newest 64 connections, so that idle ones keep no probe out', async () => {
  for (let index = 0; index < 200; index += 1) await openSocket();
  const open = () => sockets.filter(({ closed }) => !closed);
  await waitFor(() => open().length <= 64, { what: 'the oldest connections are ended' });
  expect(open()).toEqual(sockets.slice(-64));
  for (const path of ['/livez', '/metrics']) expect((await get(path)).status, path).toBe(200);
});

it('a connection that sends nothing, and one whose request does not come whole, are ended', async () => {
  const [silent, slow] = [await openSocket(), await openSocket()];
  slow.write('GET /livez HTTP/1.1\r\nhost: x\r\n');
  await Promise.all([once(silent, 'close'), once(slow, 'close')]);
});

it('metrics are rendered once for many that ask at the same time', async () => {
  let renderings = 0;
  new Gauge({
    name: 'test',
    help: 'Test.',
    registers: [telemetry.registry],
    collect: () => void renderings++,
  });
  const answers = await Promise.all(Array.from({ length: 40 }, () => get('/metrics')));
  for (const answer of answers) expect(await answer.text()).toContain('# HELP test Test.');
  // More than one where they take more than a second.
  expect(renderings).toBeLessThan(20);
});

import { once } from 'node:events';
import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { ReadingTurns } from '../../../src/api/http/reading-turns.ts';
import { waitFor } from '../../support/wait-for.ts';

const KIB = 1_024;

it.each([
  { what: 'brought 64 KiB of a body', pieces: 1, bytes: 64 * KIB },
  { what: 'brought 256 small pieces of a body', pieces: 256, bytes: 1 },
])('a connection that $what waits, and is read on in its turn', async ({ pieces, bytes }) => {
  const turns = new ReadingTurns();
  const [heavy, light] = [new Socket(), new Socket()];
  for (let piece = 0; piece < pieces; piece += 1) turns.countPiece(heavy, bytes);
  turns.countPiece(light, 16 * KIB);
  expect([heavy.isPaused(), light.isPaused()]).toEqual([true, false]);
  expect(turns.readUpToAt).toBeLessThan(performance.now());
  await waitFor(() => !heavy.isPaused(), { what: 'its turn' });
  await waitFor(() => turns.readUpToAt === Number.POSITIVE_INFINITY, { what: 'nobody waits' });
});

it('bodies in small pieces wait for each other, and nobody else waits for them', async () => {
  const turns = new ReadingTurns();
  const crumbs = Array.from({ length: 20 }, () => new Socket());
  for (const socket of crumbs) for (let piece = 0; piece < 10_000; piece += 1) turns.countPiece(socket, 1);
  const long = new Socket();
  turns.countPiece(long, 64 * KIB);
  await once(long, 'resume');
  expect(crumbs.filter((socket) => socket.isPaused()).length).toBeGreaterThan(10);
  await waitFor(() => crumbs.every((socket) => !socket.isPaused()), { what: 'their turns' });
});

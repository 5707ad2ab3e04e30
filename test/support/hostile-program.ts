// The program of hostile senders: bodies in single bytes and in short lines, small ones that unpack to very much, oversized ones, and sockets
// that never finish a request. Its arguments are the port of the api, the path of a beat, and which attacks, each with its
// number of connections: `singleBytes=20`.
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

const [port = '', path = '', ...attackers] = process.argv.slice(2);
const RECONNECT_MS = 20;
const SINGLE_BYTES = '1\r\nx\r\n'.repeat(200);
const SHORT_LINES = `50\r\n${'x'.repeat(79)}\n\r\n`.repeat(20);
const OVERSIZED_BYTES = 20 * 1024 * 1024;
const BLOCK = Buffer.alloc(64 * 1024, 'x');
const BOMB = gzipSync(Buffer.alloc(64 * 1024 * 1024));

const head = (...lines: string[]) => `POST ${path} HTTP/1.1\r\nhost: bench\r\n${lines.join('\r\n')}\r\n\r\n`;

/** Writes pieces as fast as the server reads them. */
function pour(socket: Socket, pieces: number, piece: Buffer | string): void {
  let left = pieces;
  const more = () => {
    while (left > 0 && !socket.destroyed) {
      left -= 1;
      if (!socket.write(piece)) return;
    }
  };
  socket.on('drain', more);
  more();
}

const attacks: Record<string, (socket: Socket) => void> = {
  singleBytes: (socket) => {
    socket.write(head('transfer-encoding: chunked'));
    pour(socket, Number.POSITIVE_INFINITY, SINGLE_BYTES);
  },
  shortLines: (socket) => {
    socket.write(head('transfer-encoding: chunked'));
    pour(socket, Number.POSITIVE_INFINITY, SHORT_LINES);
  },
  textBomb: (socket) => {
    socket.write(head('content-encoding: gzip', `content-length: ${BOMB.length}`));
    socket.write(BOMB);
  },
  jsonBomb: (socket) => {
    const type = 'content-type: application/json';
    socket.write(head(type, 'content-encoding: gzip', `content-length: ${BOMB.length}`));
    socket.write(BOMB);
  },
  oversized: (socket) => {
    socket.write(head(`content-length: ${OVERSIZED_BYTES}`));
    pour(socket, OVERSIZED_BYTES / BLOCK.length, BLOCK);
  },
  halfHead: (socket) => socket.write(`POST ${path} HTTP/1.1\r\nhost: bench\r\nx-half: `),
  noBody: (socket) => socket.write(head('content-length: 100')),
};

/** Opens connections, one after the other. Each is used until it has an answer or is closed. */
function keepAttacking(attack: (socket: Socket) => void): void {
  const socket = connect(Number(port), '127.0.0.1', () => attack(socket));
  socket.on('error', () => undefined); // it is opened again
  socket.on('data', () => socket.destroy());
  socket.once('close', () => setTimeout(keepAttacking, RECONNECT_MS, attack));
}

for (const attacker of attackers) {
  const [name = '', connections] = attacker.split('=');
  const attack = attacks[name];
  if (!attack) throw new Error(`There is no attack ${name}.`);
  for (let connection = 0; connection < Number(connections); connection += 1) keepAttacking(attack);
}
process.once('disconnect', () => process.exit());

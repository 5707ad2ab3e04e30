// The program of hostile senders: bodies in single bytes, small ones that unpack to very much, oversized ones, and sockets
// that never finish a request. Arguments: port, the path of a beat. Ends with its parent.
import { connect, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

const [port = '', path = ''] = process.argv.slice(2);
const RECONNECT_MS = 20;
const IDLE_SOCKETS = 300;
const SENDERS = 20;
const CHUNKS_AT_ONCE = 200;
const OVERSIZED_BYTES = 20 * 1024 * 1024;
const BLOCK = Buffer.alloc(64 * 1024, 'x');
const BOMB = gzipSync(Buffer.alloc(64 * 1024 * 1024));

const head = (...lines: string[]) => `POST ${path} HTTP/1.1\r\nhost: bench\r\n${lines.join('\r\n')}\r\n\r\n`;

/** Opens connections, one after the other, and lets `attack` use each until it closes. */
function keepOpen(attack: (socket: Socket) => void): void {
  const socket = connect(Number(port), '127.0.0.1', () => attack(socket));
  socket.on('error', () => undefined).resume();
  socket.once('close', () => setTimeout(keepOpen, RECONNECT_MS, attack));
}

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
    pour(socket, 2_000, '1\r\nx\r\n'.repeat(CHUNKS_AT_ONCE));
  },
  textBomb: (socket) => {
    socket.write(head('content-encoding: gzip', `content-length: ${BOMB.length}`));
    socket.write(BOMB);
  },
  jsonBomb: (socket) => {
    socket.write(
      head('content-type: application/json', 'content-encoding: gzip', 'transfer-encoding: chunked'),
    );
    socket.write(`${BOMB.length.toString(16)}\r\n`);
    socket.write(BOMB);
    socket.write('\r\n0\r\n\r\n');
  },
  oversized: (socket) => {
    socket.write(head(`content-length: ${OVERSIZED_BYTES}`));
    pour(socket, OVERSIZED_BYTES / BLOCK.length, BLOCK);
  },
};

for (const attack of Object.values(attacks))
  for (let sender = 0; sender < SENDERS; sender += 1) keepOpen(attack);
for (let socket = 0; socket < IDLE_SOCKETS; socket += 1) {
  keepOpen((open) => open.write(`POST ${path} HTTP/1.1\r\nhost: bench\r\nx-half: `));
  keepOpen((open) => open.write(head('content-length: 100')));
}
process.once('disconnect', () => process.exit());

// The program of a flood: as many beats as the service takes and more, with many under way on each connection. It reads
// no answer. Its arguments are the file of the publish addresses, one a line, the port of the api, how many connections it
// opens, how many beats are under way on each, and `tls` for an api that speaks https.
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { connect as connectByTls } from 'node:tls';

const RECONNECT_MS = 100;
/** Each answer has this line once. */
const ANSWER = 'HTTP/1.1 ';

const [file = '', ...numbers] = process.argv.slice(2);
const [port = 0, connections = 0, depth = 0] = numbers.map(Number);
const addresses = readFileSync(file, 'utf8').trim().split('\n');
let next = Math.floor(Math.random() * addresses.length);

function beats(count: number): string {
  let text = '';
  for (let beat = 0; beat < count; beat += 1) {
    next = (next + 1) % addresses.length;
    text += `GET /ping/${addresses[next]} HTTP/1.1\r\nHost: flood\r\n\r\n`;
  }
  return text;
}

function open(): void {
  const isTls = numbers.includes('tls');
  const to = { port, host: '127.0.0.1' };
  const socket = isTls ? connectByTls({ ...to, rejectUnauthorized: false }) : connect(to);
  socket.setEncoding('latin1');
  socket.once(isTls ? 'secureConnect' : 'connect', () => socket.write(beats(depth)));
  socket.on('data', (chunk: string) => {
    const answers = chunk.split(ANSWER).length - 1;
    if (answers > 0) socket.write(beats(answers));
  });
  socket.on('error', () => undefined); // it is opened again
  socket.once('close', () => setTimeout(open, RECONNECT_MS));
}

for (let connection = 0; connection < connections; connection += 1) open();
process.once('disconnect', () => process.exit());

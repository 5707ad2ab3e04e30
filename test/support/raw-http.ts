// HTTP as bytes on a socket, for requests that no client library would send.
import { connect, type Socket } from 'node:net';
import { connect as connectByTls } from 'node:tls';

export interface RawOptions {
  /** Closes the sending half after the last byte, as `nc -N` does. */
  halfClose?: boolean;
  /** Ends the wait when it returns true for the text so far, before the server closes. */
  until?: (text: string) => boolean;
}

/** Sends the text and resolves with all that the server sends before it closes, or until `until` returns true. */
export async function sendRaw(url: string, text: string | Buffer, options: RawOptions = {}): Promise<string> {
  const { protocol, hostname, port } = new URL(url);
  const to = { host: hostname, port: Number(port), allowHalfOpen: true };
  const socket = protocol === 'https:' ? connectByTls({ ...to, rejectUnauthorized: false }) : connect(to);
  const answer = readAll(socket, options.until);
  if (options.halfClose) socket.end(text);
  else socket.write(text);
  return await answer;
}

function readAll(socket: Socket, until: RawOptions['until']): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const finish = () => {
      socket.destroy();
      resolve(received);
    };
    socket.setTimeout(180_000, () =>
      reject(new Error(`No answer within three minutes; so far: ${received}`)),
    );
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      if (until?.(received)) finish();
    });
    socket.on('end', finish);
    socket.on('error', (error) => (received === '' ? reject(error) : finish()));
  });
}

// What is no HTTP, or comes too slowly: answered on the socket, because there is no request yet. The calls that came
// before on the same connection get their answers first, or their callers would take the refusal for it.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { newId } from '../../domain/id.ts';
import { ProblemError } from '../../domain/problem.ts';
import { PROBLEM_TYPE, problemBody } from './problem.ts';

type ClientError = Error & { code?: string };
type Response = ServerResponse<IncomingMessage>;

export class ClientErrors {
  /** The answers to the last two requests of a connection: only the last one can be cut off in its body. */
  readonly #answers = new WeakMap<Socket, { last: Response; before?: Response }>();
  readonly #waiting = new WeakSet<Socket>();

  /** For each request, when it begins. What is answered is forgotten: idle connections cost nothing. */
  begin(response: Response): void {
    const { socket } = response.req;
    this.#answers.set(socket, { last: response, before: this.#answers.get(socket)?.last });
    response.once('close', () => {
      if (this.#answers.get(socket)?.last === response) this.#answers.delete(socket);
    });
  }

  /** Answers with a 400 and ends the connection, once what came whole before is answered. */
  answer(error: ClientError, socket: Socket): void {
    if (this.#waiting.has(socket)) return;
    const { last, before } = this.#answers.get(socket) ?? {};
    const pending = [last, before].find((one) => one?.req.complete && !one.writableFinished);
    if (!pending) {
      refuse(error, socket);
      return;
    }
    this.#waiting.add(socket);
    pending.once('close', () => refuse(error, socket));
  }
}

function refuse(error: ClientError, socket: Socket): void {
  if (socket.destroyed || !socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const problem = new ProblemError('validation_failed', { detail: detailOf(error.code) });
  const id = newId('req');
  const body = JSON.stringify(problemBody(problem, id));
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    `content-type: ${PROBLEM_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${id}`,
    `x-correlation-id: ${id}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function detailOf(code: string | undefined): string {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request took too long to arrive.';
  if (code === 'HPE_HEADER_OVERFLOW') return 'The headers are too long: all together at most 16 KiB.';
  return 'This is not a valid HTTP request.';
}

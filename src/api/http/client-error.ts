// Refuses input that is not HTTP or comes too slowly. There is no request yet, so the answer is written to the socket.
// Earlier calls on the same connection are answered first: their callers would take the refusal for their answer.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { newId } from '../../domain/id.ts';
import { ProblemError } from '../../domain/problem.ts';
import { PROBLEM_TYPE, problemBody } from './problem.ts';
import { destroyIn, EARLY_ANSWER_MS } from './server.ts';

type ClientError = Error & { code?: string };
type Response = ServerResponse<IncomingMessage>;

export class ClientErrors {
  /** The responses to the last two requests of a connection: only the last request can be cut off in its body. */
  readonly #answers = new WeakMap<Socket, { last: Response; before?: Response }>();
  readonly #waiting = new WeakSet<Socket>();

  /** Call it when a request begins. A finished response is forgotten: idle connections cost nothing. */
  begin(response: Response): void {
    const { socket } = response.req;
    this.#answers.set(socket, { last: response, before: this.#answers.get(socket)?.last });
    response.once('close', () => {
      if (this.#answers.get(socket)?.last === response) this.#answers.delete(socket);
    });
  }

  /** Answers with a 400 and ends the connection, after the answers to the requests that arrived whole. */
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
  destroyIn(EARLY_ANSWER_MS, socket);
}

function detailOf(code: string | undefined): string {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request took too long to arrive: send it again.';
  if (code === 'HPE_HEADER_OVERFLOW') return 'The headers are too long: send at most 16 KiB of them.';
  return 'This is not a valid HTTP request.';
}

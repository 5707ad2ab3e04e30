// Reads the answers of a connection on which one request at a time is under way.

export interface Answer {
  status: number;
  /** The server closes the connection after it. */
  isLast: boolean;
}

const HEAD_END = '\r\n\r\n';

export class AnswerReader {
  #text = '';

  /** Takes what arrived, as latin1. Returns the answer when it is complete. */
  add(chunk: string): Answer | undefined {
    this.#text += chunk;
    const headEnd = this.#text.indexOf(HEAD_END);
    if (headEnd < 0) return undefined;
    const head = this.#text.slice(0, headEnd + 2).toLowerCase();
    if (head.includes('\r\ntransfer-encoding:')) throw new Error('The load reads no chunked answers.');
    const length = Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
    if (this.#text.length < headEnd + HEAD_END.length + length) return undefined;
    this.#text = this.#text.slice(headEnd + HEAD_END.length + length);
    return { status: Number(head.slice(9, 12)), isLast: /\r\nconnection: *close/.test(head) };
  }
}

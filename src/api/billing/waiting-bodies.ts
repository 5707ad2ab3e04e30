// Bodies of strangers that are on their way. Each may have a megabyte, so they are few: one more ends the oldest, which
// is that of a sender who is slow, and never that of one who sends at once.
import type { IncomingMessage } from 'node:http';

export class WaitingBodies {
  readonly #limit: number;
  /** The oldest first. */
  readonly #waiting = new Set<IncomingMessage>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts a request until its body is there, or it is gone. */
  begin(request: IncomingMessage): void {
    const [oldest] = this.#waiting;
    if (oldest && this.#waiting.size >= this.#limit) {
      this.#waiting.delete(oldest);
      oldest.socket.destroy();
    }
    this.#waiting.add(request);
    request.once('close', () => this.#waiting.delete(request));
  }

  end(request: IncomingMessage): void {
    this.#waiting.delete(request);
  }
}

// Connections that send much take turns. Node accepts one connection in a turn of the event loop: where each turn reads
// thousands of requests, new connections wait for minutes, and everybody waits for his answer.
import type { Socket } from 'node:net';

/** Past so many requests in one turn, also a connection that sent only one of them waits. */
const MANY_REQUESTS = 256;
/** Of the connections that wait, about so many requests are read in a turn. */
const REQUESTS_A_TURN = 16;

interface Waiting {
  /** Whatever arrived before is read. */
  sinceAt: number;
  /** That it sent before it had to wait: about as many come next. */
  requests: number;
}

export class ReadingTurns {
  /** The first one waits longest. */
  readonly #waiting = new Map<Socket, Waiting>();
  readonly #known = new WeakSet<Socket>();
  /** That were read in this turn. */
  #requests = 0;
  /** How many requests the first ones that wait may bring. */
  #credit = 0;
  /** Of the connections that are read again, since the end of the last turn. */
  #resumedSinceAt = Number.POSITIVE_INFINITY;
  #isScheduled = false;

  /**
   * Call it for each request that is read, with the number of those on its connection that have no answer yet. The
   * connection may have to wait before the next ones are read.
   */
  count(socket: Socket, open: number): void {
    this.#requests += 1;
    this.#schedule();
    const waiting = this.#waiting.get(socket);
    if (waiting) waiting.requests += 1;
    else if (open > 1 || this.#requests > MANY_REQUESTS) this.#hold(socket);
  }

  /** Somebody else decides when the connection is read. */
  release(socket: Socket): void {
    this.#waiting.delete(socket);
  }

  /** What arrived before is read on each connection that had to wait. Infinity: none has to. Of `performance.now()`. */
  get readUpToAt(): number {
    for (const { sinceAt } of this.#waiting.values()) return Math.min(sinceAt, this.#resumedSinceAt);
    return this.#resumedSinceAt;
  }

  #hold(socket: Socket): void {
    this.#waiting.set(socket, { sinceAt: performance.now(), requests: 1 });
    if (!this.#known.has(socket)) {
      this.#known.add(socket);
      // Each answer makes the server read on.
      socket.on('resume', () => this.#waiting.has(socket) && socket.pause());
      socket.once('close', () => this.release(socket));
    }
    socket.pause();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isScheduled = false;
    this.#requests = 0;
    // Those of the last turn are read.
    this.#resumedSinceAt = Number.POSITIVE_INFINITY;
    this.#credit = this.#waiting.size > 0 ? this.#credit + REQUESTS_A_TURN : 0;
    for (const [socket, { sinceAt, requests }] of this.#waiting) {
      if (this.#credit < requests) break;
      this.#credit -= requests;
      this.#waiting.delete(socket);
      this.#resumedSinceAt = Math.min(this.#resumedSinceAt, sinceAt);
      socket.resume();
    }
    if (this.readUpToAt < Number.POSITIVE_INFINITY) this.#schedule();
  }
}

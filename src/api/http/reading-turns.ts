// Connections that send much take turns. Node accepts one connection in a turn of the event loop: where each turn reads
// thousands of requests, new connections wait for minutes, and everybody waits for his answer.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Past so many requests in one turn, also a connection that sent only one of them waits. */
const MANY_REQUESTS = 256;
/** Of the connections that wait, about so many requests are read in a turn. */
const REQUESTS_A_TURN = 16;
/** Past so many requests of one connection in a turn, the rest of what has arrived on it waits too. */
const MOST_OF_ONE = 64;
/** No connection waits longer. With the patience of a beat, an answer within 10 s (docs/contract/beats.md). */
const MOST_WAIT_MS = 5_000;

interface Waiting {
  /** Whatever arrived before is read. */
  sinceAt: number;
  /** That it sent in the turn in which it was read last: about as many come next. */
  requests: number;
}

/** Moments are those of `performance.now()`. */
export class ReadingTurns {
  /** Whose turn comes next is first. */
  readonly #waiting = new Map<Socket, Waiting>();
  /** They wait from the end of this turn on, when all that has arrived on them is read. */
  #next = new Map<Socket, Waiting>();
  /** In this turn: since when what is read may have waited. */
  #resumed = new Map<Socket, number>();
  readonly #known = new WeakSet<Socket>();
  #turnAt = 0;
  /** That were read in this turn. */
  #requests = 0;
  /** How many requests the connections whose turn comes next may bring. */
  #credit = 0;
  #isScheduled = false;

  /**
   * Call it for each request that is read, with the number of those on its connection that have no answer yet. The
   * connection may have to wait before the next ones are read.
   */
  count({ socket }: IncomingMessage, open: number): void {
    if (this.#requests === 0) this.#turnAt = performance.now();
    this.#requests += 1;
    this.#schedule();
    const next = this.#next.get(socket);
    if (next) {
      next.requests += 1;
      if (next.requests === MOST_OF_ONE) this.#pause(socket);
    } else if (open > 1 || this.#requests > MANY_REQUESTS)
      this.#next.set(socket, { sinceAt: this.#turnAt, requests: open });
  }

  /** How long the request may have lain unread, in ms. Call it in the turn in which it is read. */
  waitedMs({ socket }: IncomingMessage): number {
    const sinceAt = this.#resumed.get(socket);
    return sinceAt === undefined ? 0 : performance.now() - sinceAt;
  }

  /** The connection is not read any more, or somebody else reads it. */
  release(socket: Socket): void {
    for (const sockets of [this.#waiting, this.#next, this.#resumed]) sockets.delete(socket);
  }

  /** What arrived before is read on each connection that had to wait. Infinity: none had to. */
  get readUpToAt(): number {
    let at = Number.POSITIVE_INFINITY;
    for (const sinceAt of this.#resumed.values()) at = Math.min(at, sinceAt);
    for (const { sinceAt } of this.#waiting.values()) return Math.min(at, sinceAt);
    for (const { sinceAt } of this.#next.values()) return Math.min(at, sinceAt);
    return at;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isScheduled = false;
    this.#requests = 0;
    // What had arrived on them is read by now.
    this.#resumed = new Map();
    for (const [socket, waiting] of this.#next) {
      this.#waiting.set(socket, waiting);
      this.#pause(socket);
    }
    this.#next = new Map();
    this.#resume();
    if (this.#waiting.size > 0 || this.#resumed.size > 0) this.#schedule();
  }

  #pause(socket: Socket): void {
    if (!this.#known.has(socket)) {
      this.#known.add(socket);
      // Node reads on after each request and each answer.
      socket.on('resume', () => this.#mustWait(socket) && socket.pause());
      socket.once('close', () => this.release(socket));
    }
    socket.pause();
  }

  #mustWait(socket: Socket): boolean {
    return this.#waiting.has(socket) || (this.#next.get(socket)?.requests ?? 0) >= MOST_OF_ONE;
  }

  #resume(): void {
    const now = performance.now();
    this.#credit = this.#waiting.size > 0 ? this.#credit + REQUESTS_A_TURN : 0;
    for (const [socket, { sinceAt, requests }] of this.#waiting) {
      if (this.#credit < requests && now - sinceAt < MOST_WAIT_MS) return;
      this.#credit = Math.max(this.#credit - requests, 0);
      this.#waiting.delete(socket);
      this.#resumed.set(socket, sinceAt);
      socket.resume();
    }
  }
}

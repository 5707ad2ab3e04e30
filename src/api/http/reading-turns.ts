// Connections that send much take turns. Node accepts one connection in a turn of the event loop: where each turn reads
// thousands of requests, new connections wait for minutes, and everybody waits for his answer.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Past so many requests in one turn, also a connection that sent only one of them waits. */
const MANY_REQUESTS = 256;
/** Of the connections that wait, about so many requests are read in a turn. */
const REQUESTS_A_TURN = { single: 32, pipelined: 16 };
/** Past so many requests of one connection in a turn, the rest of what has arrived on it waits too. */
const MOST_OF_ONE = 64;
/** What lies unread for longer on a connection that pipelined when it was read last counts as not sent yet. */
const PIPELINED_COUNT_MS = 5_000;

interface Waiting {
  /** Whatever arrived before is read. */
  sinceAt: number;
  /** That were read since it had to wait: about as many come next. */
  requests: number;
  /** It sent one of them before the answer to the last one. */
  isPipelined: boolean;
}

/** Moments are those of `performance.now()`. */
export class ReadingTurns {
  /** Those that send one request after the other wait only for each other, and so do those that pipeline. */
  readonly #single = new Line(REQUESTS_A_TURN.single);
  readonly #pipelined = new Line(REQUESTS_A_TURN.pipelined);
  /** They wait from the end of this turn on, when what has arrived on them is read. */
  #next = new Map<Socket, Waiting>();
  /** In this turn: since when what is read may have waited. */
  #resumed = new Map<Socket, Waiting>();
  readonly #known = new WeakSet<Socket>();
  #turnAt = 0;
  /** That were read in this turn. */
  #requests = 0;
  #isScheduled = false;

  /**
   * Call it for each request that is read, with the number of those on its connection that have no answer yet. The
   * connection may have to wait before the next ones are read.
   */
  count({ socket }: IncomingMessage, open: number): void {
    if (this.#requests === 0) this.#turnAt = performance.now();
    this.#requests += 1;
    this.#schedule();
    const isPipelined = open > 1;
    const next = this.#next.get(socket);
    if (next) {
      next.requests += 1;
      next.isPipelined ||= isPipelined;
      if (next.requests >= MOST_OF_ONE) this.#pause(socket);
    } else if (isPipelined || this.#requests > MANY_REQUESTS)
      this.#next.set(socket, { sinceAt: this.#turnAt, requests: 1, isPipelined });
  }

  /** How long the request may have lain unread, in ms. Call it in the turn in which it is read. */
  waitedMs({ socket }: IncomingMessage): number {
    const resumed = this.#resumed.get(socket);
    return resumed === undefined ? 0 : performance.now() - resumed.sinceAt;
  }

  /** The connection is not read any more, or somebody else reads it. */
  release(socket: Socket): void {
    for (const sockets of [this.#single, this.#pipelined, this.#next, this.#resumed]) sockets.delete(socket);
  }

  /** What arrived before is read on each connection that had to wait, or counts as not sent. Infinity: none had to. */
  get readUpToAt(): number {
    const countsFromAt = performance.now() - PIPELINED_COUNT_MS;
    let at = Math.min(this.#single.sinceAt, Math.max(this.#pipelined.sinceAt, countsFromAt));
    for (const { sinceAt, isPipelined } of this.#resumed.values())
      at = Math.min(at, isPipelined ? Math.max(sinceAt, countsFromAt) : sinceAt);
    return this.#next.size > 0 ? Math.min(at, this.#turnAt) : at;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isScheduled = false;
    this.#requests = 0;
    const next = this.#next;
    this.#next = new Map();
    for (const [socket, waiting] of next) {
      this.release(socket);
      const line = waiting.isPipelined ? this.#pipelined : this.#single;
      line.set(socket, waiting);
      this.#pause(socket);
    }
    // What had arrived on those of the last turn is read by now.
    this.#resumed = new Map([...this.#single.takeTurn(), ...this.#pipelined.takeTurn()]);
    for (const socket of this.#resumed.keys()) socket.resume();
    if (this.#single.size + this.#pipelined.size + this.#resumed.size > 0) this.#schedule();
  }

  #pause(socket: Socket): void {
    if (!this.#known.has(socket)) {
      this.#known.add(socket);
      // Node reads on after each request and each answer.
      socket.on('resume', () => this.#mustWait(socket) && pause(socket));
      socket.once('close', () => this.release(socket));
    }
    pause(socket);
  }

  #mustWait(socket: Socket): boolean {
    const isLong = (this.#next.get(socket)?.requests ?? 0) >= MOST_OF_ONE;
    return isLong || this.#single.has(socket) || this.#pipelined.has(socket);
  }
}

function pause(socket: Socket): void {
  // A stream that is paused already says nothing, though Node may be about to read on.
  if (socket.readableFlowing === false) socket.emit('pause');
  else socket.pause();
}

/** Connections that wait, in the order of their turns. */
class Line extends Map<Socket, Waiting> {
  readonly #requestsATurn: number;
  /** How many requests those may bring whose turn comes next. */
  #credit = 0;

  constructor(requestsATurn: number) {
    super();
    this.#requestsATurn = requestsATurn;
  }

  /** Of the one that waits longest; Infinity: none waits. */
  get sinceAt(): number {
    for (const { sinceAt } of this.values()) return sinceAt;
    return Number.POSITIVE_INFINITY;
  }

  /** Removes and returns those whose turn has come. */
  takeTurn(): [Socket, Waiting][] {
    const taken: [Socket, Waiting][] = [];
    this.#credit = this.size > 0 ? this.#credit + this.#requestsATurn : 0;
    for (const [socket, waiting] of this) {
      if (this.#credit < waiting.requests) break;
      this.#credit -= waiting.requests;
      this.delete(socket);
      taken.push([socket, waiting]);
    }
    return taken;
  }
}

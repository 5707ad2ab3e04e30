// Connections that send much take turns. Node accepts one connection in a turn of the event loop and reads up to 2 MiB of
// each of the others: where that is thousands of requests, or of chunks of a body, new connections wait for minutes, and
// everybody waits for his answer.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Past so many requests in one turn, also a connection that sent only one of them waits. */
const MANY_REQUESTS = 256;
/**
 * Those that wait, by what they sent: one request after the other, one before the answer to the last one, or much of a body
 * at once. They wait only for others of their kind, of which about so many requests are read in a turn.
 */
const REQUESTS_A_TURN = { single: 32, pipelined: 16, body: 8 };
type Kind = keyof typeof REQUESTS_A_TURN;
/** Past so many requests of one connection in a turn, the rest of what has arrived on it waits too. */
const MOST_OF_ONE = 64;
/** Bodies cost by their pieces and bytes. What comes on one connection in a turn counts as a request for each so much of it. */
const REQUEST_COST = 128;
const BYTES_OF_A_PIECE = 512;
/** Between two turns of bodies, so that they leave a part of the processor to others however many they are. */
const BODY_PAUSE_MS = 2;
/** What lies unread for longer counts as not sent yet, but where one request was sent after the other. */
const COUNT_MS = 5_000;

interface Waiting {
  /** Whatever arrived before is read. */
  sinceAt: number;
  /** That were read since it had to wait: about as many come next. */
  requests: number;
  kind: Kind;
}

/** Moments are those of `performance.now()`. */
export class ReadingTurns {
  readonly #lines = { single: new Line('single'), pipelined: new Line('pipelined'), body: new Line('body') };
  /** They wait from the end of this turn on, when what has arrived on them is read. */
  #next = new Map<Socket, Waiting>();
  /** In this turn: since when what is read may have waited. */
  #resumed = new Map<Socket, Waiting>();
  /** What bodies cost in this turn. */
  #costs = new Map<Socket, number>();
  /** Nobody reads the body that comes. */
  readonly #held = new WeakSet<Socket>();
  readonly #stopped = new WeakSet<Socket>();
  readonly #known = new WeakSet<Socket>();
  /** Requests of this turn whose body is not whole yet, with what handles them. */
  readonly #deferred = new Map<IncomingMessage, () => void>();
  #turnAt = 0;
  /** That were read in this turn. */
  #requests = 0;
  #isScheduled = false;
  #bodyTimer: NodeJS.Timeout | undefined;

  /**
   * Call it for each request that is read, with the number of those on its connection that have no answer yet. The
   * connection may have to wait before the next ones are read.
   */
  count({ socket }: IncomingMessage, open: number): void {
    this.#schedule();
    this.#requests += 1;
    const isPipelined = open > 1;
    if (isPipelined || this.#requests > MANY_REQUESTS || this.#next.has(socket))
      this.#add(socket, isPipelined ? 'pipelined' : 'single');
  }

  /**
   * Calls `handle` at the end of this turn, when all is read that came with the head of the request: an answer that is
   * given at once does not come before such a body. Call `count` first, which begins the turn.
   */
  defer(request: IncomingMessage, handle: () => void): void {
    this.#deferred.set(request, handle);
  }

  /** Its body is whole: it waits no longer. */
  handle(request: IncomingMessage): void {
    const handle = this.#deferred.get(request);
    this.#deferred.delete(request);
    handle?.();
  }

  /** Call it for each piece of a body. The connection may have to wait before the next ones are read. */
  countPiece(socket: Socket, bytes: number): void {
    this.#schedule();
    const before = this.#costs.get(socket) ?? 0;
    const cost = before + 1 + bytes / BYTES_OF_A_PIECE;
    this.#costs.set(socket, cost);
    if (Math.floor(cost / REQUEST_COST) > Math.floor(before / REQUEST_COST)) this.#add(socket, 'body');
  }

  /** What comes of its body is kept, because nobody reads it: the connection is not read on until `unhold`, by whom reads. */
  hold(socket: Socket): void {
    this.#held.add(socket);
  }

  unhold(socket: Socket): void {
    this.#held.delete(socket);
  }

  /** The connection is not read any more, whoever asks for it. */
  stop(socket: Socket): void {
    this.release(socket);
    this.#stopped.add(socket);
    this.#pause(socket);
  }

  /** How long the request may have lain unread, in ms. Call it in the turn in which it is read. */
  waitedMs({ socket }: IncomingMessage): number {
    const resumed = this.#resumed.get(socket);
    return resumed === undefined ? 0 : performance.now() - resumed.sinceAt;
  }

  /** The connection is not read any more, or somebody else reads it. */
  release(socket: Socket): void {
    for (const sockets of [...Object.values(this.#lines), this.#next, this.#resumed, this.#costs])
      sockets.delete(socket);
  }

  /** What arrived before is read on each connection that had to wait, or counts as not sent. Infinity: none had to. */
  get readUpToAt(): number {
    const countsFromAt = performance.now() - COUNT_MS;
    let at = this.#next.size > 0 ? this.#turnAt : Number.POSITIVE_INFINITY;
    for (const { kind, sinceAt } of [...Object.values(this.#lines), ...this.#resumed.values()])
      at = Math.min(at, kind === 'single' ? sinceAt : Math.max(sinceAt, countsFromAt));
    return at;
  }

  #add(socket: Socket, kind: Kind): void {
    const next = this.#next.get(socket);
    if (next) {
      next.requests += 1;
      if (next.kind === 'single' || kind === 'body') next.kind = kind;
    } else this.#next.set(socket, { sinceAt: this.#turnAt, requests: 1, kind });
    if (this.#isMuch(socket)) this.#pause(socket);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#turnAt = performance.now();
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    this.#isScheduled = false;
    for (const request of this.#deferred.keys()) this.handle(request);
    this.#requests = 0;
    this.#costs.clear();
    const next = this.#next;
    this.#next = new Map();
    for (const [socket, waiting] of next) {
      this.release(socket);
      this.#lines[waiting.kind].set(socket, waiting);
      this.#pause(socket);
    }
    // What had arrived on those of the last turn is read by now.
    this.#resumed = new Map(this.#takeTurns());
    for (const socket of this.#resumed.keys()) if (!this.#held.has(socket)) socket.resume();
    const { single, pipelined } = this.#lines;
    if (this.#resumed.size + single.size + pipelined.size > 0) this.#schedule();
  }

  #takeTurns(): [Socket, Waiting][] {
    const { single, pipelined, body } = this.#lines;
    const taken = [...single.takeTurn(), ...pipelined.takeTurn()];
    if (body.size === 0 || this.#bodyTimer) return taken;
    this.#bodyTimer = setTimeout(() => {
      this.#bodyTimer = undefined;
      if (body.size > 0) this.#schedule();
    }, BODY_PAUSE_MS);
    return [...taken, ...body.takeTurn()];
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
    if (this.#stopped.has(socket) || this.#isMuch(socket)) return true;
    return Object.values(this.#lines).some((line) => line.has(socket));
  }

  /** In this turn. */
  #isMuch(socket: Socket): boolean {
    const next = this.#next.get(socket);
    return next !== undefined && (next.kind === 'body' || next.requests >= MOST_OF_ONE);
  }
}

function pause(socket: Socket): void {
  // A stream that is paused already says nothing, though Node may be about to read on.
  if (socket.readableFlowing === false) socket.emit('pause');
  else socket.pause();
}

/** Connections that wait, in the order of their turns. */
class Line extends Map<Socket, Waiting> {
  readonly kind: Kind;
  /** How many requests those may bring whose turn comes next. */
  #credit = 0;

  constructor(kind: Kind) {
    super();
    this.kind = kind;
  }

  /** Of the one that waits longest; Infinity: none waits. */
  get sinceAt(): number {
    for (const { sinceAt } of this.values()) return sinceAt;
    return Number.POSITIVE_INFINITY;
  }

  /** Removes and returns those whose turn has come. */
  takeTurn(): [Socket, Waiting][] {
    const taken: [Socket, Waiting][] = [];
    this.#credit = this.size > 0 ? this.#credit + REQUESTS_A_TURN[this.kind] : 0;
    for (const [socket, waiting] of this) {
      if (this.#credit < waiting.requests) break;
      this.#credit -= waiting.requests;
      this.delete(socket);
      taken.push([socket, waiting]);
    }
    return taken;
  }
}

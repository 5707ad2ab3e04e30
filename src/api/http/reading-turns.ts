// Connections that send much take turns. Node accepts one connection in a turn of the event loop, and reads up to 2 MiB of
// each of the others: where a turn reads thousands of requests, or bodies in chunks of one byte, new connections wait for
// minutes, and everybody waits for his answer.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Past so many requests in one turn, also a connection that sent only one of them waits. */
const MANY_REQUESTS = 256;
/** Past so much of one connection in a turn, the rest of what has arrived on it waits too. Pieces are those of bodies. */
const MOST_OF_ONE = { requests: 64, pieces: 256, bytes: 64 * 1024 };
/**
 * Those that wait, by what they sent: one request after the other, many at once, long bodies, or bodies in small pieces, each
 * of which costs as much as thousands of bytes. They wait only for others of their kind, of which about so much is read in a
 * turn; of bodies in a millisecond, so that a part of it is left for everybody else.
 */
const READ = {
  single: { unit: 'requests', aTurn: 32 },
  pipelined: { unit: 'requests', aTurn: 16 },
  long: { unit: 'bytes', aMs: 256 * 1024 },
  crumbs: { unit: 'pieces', aMs: 250 },
} as const;
type Kind = keyof typeof READ;
/** While only bodies wait. */
const PAUSE_MS = 2;
/** What a longer turn did not read is not made up for. */
const LONGEST_TURN_MS = 50;
/** What lies unread for longer counts as not sent yet, but on connections that send one request after the other. */
const COUNT_MS = 5_000;

/** Of one connection in one turn: about as much comes in its next one. */
interface Read {
  /** Whatever arrived before is read. */
  sinceAt: number;
  /** Counted only where they make the connection wait. */
  requests: number;
  /** One of them came before the answer to the last one. */
  isPipelined: boolean;
  pieces: number;
  bytes: number;
}

/** Moments are those of `performance.now()`. */
export class ReadingTurns {
  readonly #lines = {
    single: new Line('single'),
    pipelined: new Line('pipelined'),
    long: new Line('long'),
    crumbs: new Line('crumbs'),
  };
  /** In this turn. Those that sent much wait from its end on, when what has arrived on them is read. */
  #read = new Map<Socket, Read>();
  /** In this turn: since when what is read may have waited. */
  #resumed = new Map<Socket, Read>();
  readonly #known = new WeakSet<Socket>();
  #turnAt: number | undefined;
  /** That were read in this turn. */
  #requests = 0;
  #isScheduled = false;
  #pauseTimer: NodeJS.Timeout | undefined;

  /**
   * Call it for each request that is read, with the number of those on its connection that have no answer yet. The
   * connection may have to wait before the next ones are read.
   */
  count({ socket }: IncomingMessage, open: number): void {
    this.#begin();
    this.#requests += 1;
    const isPipelined = open > 1;
    const isWaiting = (this.#read.get(socket)?.requests ?? 0) > 0;
    if (!isPipelined && !isWaiting && this.#requests <= MANY_REQUESTS) return;
    const read = this.#readOf(socket);
    read.requests += 1;
    read.isPipelined ||= isPipelined;
    if (read.requests >= MOST_OF_ONE.requests) this.#pause(socket);
  }

  /** Call it for each piece of a body that is read. The connection may have to wait before the next ones are read. */
  countPiece(socket: Socket, bytes: number): void {
    const read = this.#readOf(socket);
    const wasFull = isFull(read);
    read.pieces += 1;
    read.bytes += bytes;
    if (!wasFull && isFull(read)) this.#pause(socket);
  }

  /** How long the request may have lain unread, in ms. Call it in the turn in which it is read. */
  waitedMs({ socket }: IncomingMessage): number {
    const resumed = this.#resumed.get(socket);
    return resumed === undefined ? 0 : performance.now() - resumed.sinceAt;
  }

  /** The connection is not read any more, or somebody else reads it. */
  release(socket: Socket): void {
    for (const sockets of [...Object.values(this.#lines), this.#read, this.#resumed]) sockets.delete(socket);
  }

  /** What arrived before is read on each connection that had to wait, or counts as not sent. Infinity: none had to. */
  get readUpToAt(): number {
    const countsFromAt = performance.now() - COUNT_MS;
    const upTo = (kind: Kind, at: number) => (kind === 'single' ? at : Math.max(at, countsFromAt));
    let upToAt = Number.POSITIVE_INFINITY;
    for (const line of Object.values(this.#lines)) upToAt = Math.min(upToAt, upTo(line.kind, line.sinceAt));
    for (const read of this.#resumed.values())
      upToAt = Math.min(upToAt, upTo(kindOf(read) ?? 'single', read.sinceAt));
    for (const read of this.#read.values()) if (kindOf(read)) upToAt = Math.min(upToAt, read.sinceAt);
    return upToAt;
  }

  #begin(): number {
    this.#turnAt ??= performance.now();
    this.#schedule();
    return this.#turnAt;
  }

  #readOf(socket: Socket): Read {
    const known = this.#read.get(socket);
    if (known) return known;
    const read = { sinceAt: this.#begin(), requests: 0, isPipelined: false, pieces: 0, bytes: 0 };
    this.#read.set(socket, read);
    return read;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#endTurn());
  }

  #endTurn(): void {
    clearTimeout(this.#pauseTimer);
    this.#isScheduled = false;
    this.#turnAt = undefined;
    this.#requests = 0;
    const ended = this.#read;
    this.#read = new Map();
    for (const [socket, read] of ended) {
      const kind = kindOf(read);
      if (!kind) continue;
      this.release(socket);
      this.#lines[kind].set(socket, read);
      this.#pause(socket);
    }
    const lines = Object.values(this.#lines);
    // What had arrived on those of the last turn is read by now.
    this.#resumed = new Map(lines.flatMap((line) => line.takeTurn()));
    for (const socket of this.#resumed.keys()) socket.resume();
    const { single, pipelined, long, crumbs } = this.#lines;
    if (this.#resumed.size + single.size + pipelined.size > 0) this.#schedule();
    else if (long.size + crumbs.size > 0) this.#pauseTimer = setTimeout(() => this.#endTurn(), PAUSE_MS);
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
    const read = this.#read.get(socket);
    if (read && isFull(read)) return true;
    return Object.values(this.#lines).some((line) => line.has(socket));
  }
}

function isFull({ requests, pieces, bytes }: Read): boolean {
  return requests >= MOST_OF_ONE.requests || pieces >= MOST_OF_ONE.pieces || bytes >= MOST_OF_ONE.bytes;
}

/** Undefined: it need not wait. */
function kindOf({ requests, isPipelined, pieces, bytes }: Read): Kind | undefined {
  if (pieces >= MOST_OF_ONE.pieces) return 'crumbs';
  if (bytes >= MOST_OF_ONE.bytes) return 'long';
  if (isPipelined) return 'pipelined';
  return requests > 0 ? 'single' : undefined;
}

function pause(socket: Socket): void {
  // A stream that is paused already says nothing, though Node may be about to read on.
  if (socket.readableFlowing === false) socket.emit('pause');
  else socket.pause();
}

/** Connections that wait, in the order of their turns. */
class Line extends Map<Socket, Read> {
  readonly kind: Kind;
  /** How much those may bring whose turn comes next. */
  #credit = 0;
  /** The last turn. */
  #turnAt = 0;

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
  takeTurn(): [Socket, Read][] {
    const taken: [Socket, Read][] = [];
    const { unit } = READ[this.kind];
    this.#credit = this.size > 0 ? this.#credit + this.#gain() : 0;
    for (const [socket, read] of this) {
      if (this.#credit < read[unit]) break;
      this.#credit -= read[unit];
      this.delete(socket);
      taken.push([socket, read]);
    }
    return taken;
  }

  #gain(): number {
    const limit = READ[this.kind];
    if ('aTurn' in limit) return limit.aTurn;
    const now = performance.now();
    const gain = limit.aMs * Math.min(now - this.#turnAt, LONGEST_TURN_MS);
    this.#turnAt = now;
    return gain;
  }
}

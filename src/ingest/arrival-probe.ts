// Knows up to when everything that has reached the port of this process is read. The event loop can be late with sockets,
// and accepts one connection in each of its turns: under load new ones wait for seconds, and nothing tells. So the
// process calls itself again and again: connections are accepted in the order in which they came, and whatever had
// arrived before a call began is read when the call is answered. Moments are those of `performance.now()`.
import { request, type Server } from 'node:http';
import { request as requestByTls } from 'node:https';
import type { AddressInfo, DropArgument } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { Server as TlsServer } from 'node:tls';

const PERIOD_MS = 200;
/** The next call does not wait for one that takes longer: it may have been lost on its way. */
const LATE_MS = 1_000;
/** A call that takes longer is given up, as a sender would do. */
const LIMIT_MS = 15_000;
/** Connections may have been lost while a call took longer: the queue of those that wait is bounded. */
const SLOW_MS = 3_000;
/** No route: any answer shows that the call was read. */
const OWN_PATH = '/';
/** After so many turns of the event loop everything that had arrived on open connections before the first is read. */
const TURNS = 4;

interface Call {
  /** Whatever arrived before is read. */
  fromAt: number;
  /** When it was answered. */
  toAt: number;
}

export class ArrivalProbe {
  readonly #onLost: (fromAt: number, toAt: number) => void;
  readonly #bornAt = performance.now();
  /** Those that were answered, the oldest first. */
  #calls: Call[] = [];
  /** Where calls that are under way come from, and whether the server dropped them. */
  readonly #ownPlaces = new Map<string, boolean>();
  #readUpToAt = () => Number.POSITIVE_INFINITY;
  #isStopped = false;

  /** `onLost` is called with spans in which connections were refused, or may have been. */
  constructor(onLost: (fromAt: number, toAt: number) => void) {
    this.#onLost = onLost;
  }

  /**
   * Call it before the server listens. `readUpToAt`: what arrived before on open connections is read, as far as some of
   * them have to wait.
   */
  watch(server: Server, readUpToAt: () => number): void {
    this.#readUpToAt = readUpToAt;
    // Past the bound of connections the server does not learn who called.
    server.on('drop', (connection) => void this.#drop(connection));
    server.once('listening', () => void this.#keepCalling(server));
  }

  /** Whatever arrived before is read. */
  get knownAt(): number {
    return this.#isStopped ? performance.now() : (this.#calls.at(-1)?.fromAt ?? this.#bornAt);
  }

  /** The earliest moment at which something may have arrived that was read at `at`. */
  earliestArrival(at: number): number {
    return Math.min(at, this.#calls.findLast(({ toAt }) => toAt <= at)?.fromAt ?? this.#bornAt);
  }

  /** Nobody will ask for anything that was read before. */
  forget(beforeAt: number): void {
    const first = this.#calls.findLastIndex(({ toAt }) => toAt <= beforeAt);
    if (first > 0) this.#calls.splice(0, first);
  }

  /** Call it when the server is closed: nothing arrives any more. */
  stop(): void {
    this.#isStopped = true;
  }

  async #drop(connection: DropArgument | undefined): Promise<void> {
    const at = performance.now();
    const place = placeOf(connection?.remoteAddress, connection?.remotePort);
    await readArrived(); // by then a call knows its own place
    if (this.#ownPlaces.has(place)) this.#ownPlaces.set(place, true);
    else this.#onLost(at, at);
  }

  async #keepCalling(server: Server): Promise<void> {
    while (!this.#isStopped) {
      const call = this.#call(server);
      await Promise.race([call, pause(LATE_MS)]);
      await pause(PERIOD_MS);
    }
  }

  async #call(server: Server): Promise<void> {
    const calledAt = performance.now();
    const isRead = await this.#isEverythingRead(server);
    // Requests with a body are handled at the end of the turn in which they are read, which was queued before.
    await new Promise((resolve) => setImmediate(resolve));
    const toAt = performance.now();
    if (toAt - calledAt > SLOW_MS) this.#onLost(calledAt, toAt);
    const fromAt = Math.min(calledAt, this.#readUpToAt());
    // A later call may have been answered first.
    if (isRead && fromAt > this.knownAt) this.#calls.push({ fromAt, toAt });
  }

  async #isEverythingRead(server: Server): Promise<boolean> {
    if (server.listening && (await this.#isServed(server))) return true;
    // Where nobody listens, no connection waits.
    await readArrived();
    return !server.listening;
  }

  /** True: the call was answered, or dropped in its turn. */
  #isServed(server: Server): Promise<boolean> {
    const { address, port } = server.address() as AddressInfo;
    const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[address] ?? address;
    return new Promise((resolve) => {
      const signal = AbortSignal.timeout(LIMIT_MS);
      // It sends no secret and believes no answer, only that one came: the certificate, which has another name, is not
      // judged.
      const target = { host, port, path: OWN_PATH, agent: false, signal, rejectUnauthorized: false } as const;
      const send = server instanceof TlsServer ? requestByTls : request;
      const call = send(target, (answer) => {
        answer.on('error', () => undefined).resume();
        resolve(true);
      });
      let place = '';
      call.once('socket', (socket) =>
        socket.once('connect', () => {
          place = placeOf(socket.localAddress, socket.localPort);
          this.#ownPlaces.set(place, false);
        }),
      );
      call.on('error', () => undefined); // 'close' follows
      call.once('close', async () => {
        await readArrived();
        await readArrived();
        resolve(this.#ownPlaces.get(place) ?? false);
        this.#ownPlaces.delete(place);
      });
      call.end();
    });
  }
}

function placeOf(address: string | undefined, port: number | undefined): string {
  return `${address}:${port}`;
}

/** Resolves when everything that has arrived on open connections is read, but those that have to wait. */
async function readArrived(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Keeps no process alive. */
async function pause(ms: number): Promise<void> {
  await setTimeout(ms, undefined, { ref: false });
}

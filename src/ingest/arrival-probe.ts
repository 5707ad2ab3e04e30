// Knows up to when everything that has reached the port of this process is read. The event loop can be late with sockets,
// and accepts one connection in each of its turns: under load new ones wait for seconds, and nothing tells. So the
// process calls itself again and again: connections are accepted in the order in which they came, and whatever had
// arrived before a call began is read when the call is answered. Moments are those of `performance.now()`.
import { request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

const PERIOD_MS = 200;
/** Connections may have been lost while a call took longer: the queue of those that wait is bounded. */
const SLOW_MS = 3_000;
/** After so many turns of the event loop everything that had arrived on open connections before the first is read. */
const TURNS = 4;

interface Call {
  fromAt: number;
  /** When it was answered. */
  toAt: number;
}

export class ArrivalProbe {
  readonly #onLost: (fromAt: number, toAt: number) => void;
  readonly #bornAt = performance.now();
  /** Those that were answered, the oldest first. */
  #calls: Call[] = [];
  /** The port from which the last call came. */
  #ownPort: number | undefined;
  #isDropped = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** `onLost` is called with spans in which connections were refused, or may have been. */
  constructor(onLost: (fromAt: number, toAt: number) => void) {
    this.#onLost = onLost;
  }

  /** Call it before the server listens. */
  watch(server: Server): void {
    // Past the bound of connections the server does not learn who called.
    server.on('drop', (connection) => void this.#drop(connection?.remotePort));
    server.once('listening', () => void this.#call(server));
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
    clearTimeout(this.#timer);
  }

  async #drop(port: number | undefined): Promise<void> {
    const at = performance.now();
    await readArrived(); // by then a call knows its own port
    if (port !== undefined && port === this.#ownPort) this.#isDropped = true;
    else this.#onLost(at, at);
  }

  async #call(server: Server): Promise<void> {
    const fromAt = performance.now();
    const isRead = await this.#isEverythingRead(server);
    const toAt = performance.now();
    if (toAt - fromAt > SLOW_MS) this.#onLost(fromAt, toAt);
    if (isRead) this.#calls.push({ fromAt, toAt });
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => void this.#call(server), PERIOD_MS);
    this.#timer.unref();
  }

  async #isEverythingRead(server: Server): Promise<boolean> {
    this.#isDropped = false;
    if (server.listening && (await this.#isAnswered(server))) return true;
    // A call that was dropped had its turn too; and where nobody listens, no connection waits.
    await readArrived();
    await readArrived();
    return this.#isDropped || !server.listening;
  }

  #isAnswered(server: Server): Promise<boolean> {
    const { address, port } = server.address() as AddressInfo;
    const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[address] ?? address;
    return new Promise((resolve) => {
      const call = request({ host, port, path: '/livez', agent: false }, (answer) => {
        answer.resume();
        resolve(true);
      });
      call.once('socket', (socket) =>
        socket.once('connect', () => {
          this.#ownPort = socket.localPort;
        }),
      );
      call.once('error', () => resolve(false));
      call.end();
    });
  }
}

/** Resolves when everything that has arrived on open connections is read. */
async function readArrived(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

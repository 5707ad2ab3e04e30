// The program of a load, in a process of its own. Requests come at random moments at a given rate, whatever the server does
// (an open loop), or as soon as the one before is answered (a closed loop). A latency counts from the moment at which the
// request should have gone out, also if no connection was free: nobody is left out because the server was slow.
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { AnswerReader } from './answer-reader.ts';
import type { LoadOrder, LoadPhase, PhaseResult } from './load.ts';
import { percentile } from './table.ts';

const TICK_MS = 1;
const RECONNECT_MS = 100;
/** What is not answered by then has failed. */
const PATIENCE_MS = 20_000;
const CONNECT_AT_ONCE = 200;

interface Tally extends LoadPhase {
  sent: number;
  refused: number;
  failed: number;
  latencies: number[];
}

interface Waiting {
  dueAt: number;
  tally: Tally;
}

class Connection {
  readonly #options: { order: LoadOrder; onFree: (connection: Connection) => void };
  #socket: Socket | undefined;
  #waiting: Waiting | undefined;

  constructor(order: LoadOrder, onFree: (connection: Connection) => void) {
    this.#options = { order, onFree };
  }

  /** Resolves when the first attempt to connect has ended. */
  open(): Promise<void> {
    const { order, onFree } = this.#options;
    const reader = new AnswerReader();
    const socket = connect({ port: order.port, host: '127.0.0.1', noDelay: true });
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      const answer = reader.add(chunk);
      if (!answer) return;
      this.#settle(answer.status);
      if (answer.isLast) socket.destroy();
      else onFree(this);
    });
    socket.on('error', () => undefined); // 'close' follows
    socket.once('close', () => {
      this.#socket = undefined;
      this.#settle(0);
      if (!isEnding) setTimeout(() => void this.open(), RECONNECT_MS);
    });
    return new Promise((resolve) => {
      socket.once('close', resolve);
      socket.once('connect', () => {
        this.#socket = socket;
        resolve();
        onFree(this);
      });
    });
  }

  /** False: the connection broke while it was idle. */
  send(path: string, waiting: Waiting): boolean {
    if (!this.#socket) return false;
    this.#waiting = waiting;
    this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: bench\r\n${this.#options.order.headers ?? ''}\r\n`);
    return true;
  }

  giveUp(now: number): void {
    if (this.#waiting && now - this.#waiting.dueAt > PATIENCE_MS) this.#socket?.destroy();
  }

  #settle(status: number): void {
    if (!this.#waiting) return;
    const { dueAt, tally } = this.#waiting;
    this.#waiting = undefined;
    underWay -= 1;
    if (status >= 200 && status < 300) tally.latencies.push(performance.now() - dueAt);
    else if (status === 503) tally.refused += 1;
    else tally.failed += 1;
  }
}

const order = JSON.parse(process.argv[2] ?? '') as LoadOrder;
const paths = readFileSync(order.file, 'utf8').trim().split('\n');
let at = Math.floor(Math.random() * paths.length);
let isEnding = false;
/** Requests that are due and have no outcome yet. */
let underWay = 0;
const waiting: Waiting[] = [];
let idle: Connection[] = [];
let current: Tally | undefined;

/** Gives what waits to the connections that are free. */
function sendWaiting(): void {
  for (let first = waiting[0]; first && idle.length > 0; first = waiting[0]) {
    at = (at + 1) % paths.length;
    if (idle.pop()?.send(paths[at] ?? '', first)) waiting.shift();
  }
}

const isComplete = ({ sent, requests = Number.POSITIVE_INFINITY }: Tally) => sent >= requests;

function add(dueAt: number, tally: Tally): void {
  if (isComplete(tally)) return;
  tally.sent += 1;
  underWay += 1;
  waiting.push({ dueAt, tally });
}

function onFree(connection: Connection): void {
  idle.push(connection);
  if (current && current.ratePerSecond === undefined) add(performance.now(), current);
  sendWaiting();
}

/** Runs one phase; unless their number is given, its last requests may be under way in the next one. */
async function run(tally: Tally, startAt: number): Promise<void> {
  const endAt = startAt + tally.seconds * 1_000;
  const gapMs = 1_000 / (tally.ratePerSecond ?? Number.POSITIVE_INFINITY);
  current = tally;
  let dueAt = startAt;
  if (tally.ratePerSecond === undefined) for (const _ of idle) add(performance.now(), tally);
  for (let now = startAt; now < endAt && !isComplete(tally); now = performance.now()) {
    while (tally.ratePerSecond !== undefined && dueAt <= Math.min(now, endAt)) {
      add(dueAt, tally);
      dueAt -= gapMs * Math.log(1 - Math.random());
    }
    sendWaiting();
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  current = undefined;
  if (tally.requests === undefined) return;
  while (underWay > 0) await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  tally.seconds = (performance.now() - startAt) / 1_000;
}

function resultOf({ seconds, latencies, refused, failed }: Tally): PhaseResult {
  const sorted = latencies.toSorted((a, b) => a - b);
  const ok = sorted.length;
  return { seconds, ok, refused, failed, p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
}

const connections = Array.from({ length: order.connections }, () => new Connection(order, onFree));
for (let first = 0; first < connections.length; first += CONNECT_AT_ONCE)
  await Promise.all(connections.slice(first, first + CONNECT_AT_ONCE).map((connection) => connection.open()));
const impatience = setInterval(() => {
  for (const connection of connections) connection.giveUp(performance.now());
}, 1_000);
const tallies = order.phases.map(
  (phase): Tally => ({ ...phase, sent: 0, latencies: [], refused: 0, failed: 0 }),
);
let startAt = performance.now();
for (const tally of tallies) {
  await run(tally, startAt);
  startAt += tally.seconds * 1_000;
}
const limitAt = performance.now() + PATIENCE_MS;
while (underWay > 0 && performance.now() < limitAt) await new Promise((resolve) => setTimeout(resolve, 20));
for (const { tally } of waiting) tally.failed += 1;
isEnding = true;
clearInterval(impatience);
idle = [];
process.send?.(tallies.map(resultOf), () => process.exit(0));

// A TCP proxy for fault tests: forwards bytes, and can reset, black-hole, half-close, refuse, hold or delay them.
// It knows no protocol, so TLS passes through it.

import { once } from 'node:events';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { findFreePort } from '../../src/dev/processes/free-port.ts';

interface Pair {
  client: Socket;
  server: Socket;
  isBlackHoled: boolean;
  /** How many of the texts of `loseAnswerTo` have passed to the server. */
  passedTexts: number;
  /** What `holdAnswerTo` keeps from the client. */
  held?: Buffer[];
}

export class TcpProxy {
  readonly #target: URL;
  readonly #pairs = new Set<Pair>();
  #listener: Server | undefined;
  readonly #port: number;
  readonly #host: string;
  #accepted = 0;
  #bytesToClient = 0;
  #delayMs = 0;
  #isBlackHole: boolean = false;
  #resetAfterBytes: number | undefined;
  #lostRequest: readonly string[] = [];
  #heldRequest: string | undefined;
  #hasHeldAnswer: boolean = false;

  private constructor(target: URL, port: number, host: string) {
    this.#target = target;
    this.#port = port;
    this.#host = host;
  }

  /**
   * Starts a proxy to the server of this address, on a free port of `host` that no outgoing connection takes while the
   * proxy refuses.
   */
  static async start(url: string, host = '127.0.0.1'): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url), await findFreePort(), host);
    await proxy.accept();
    return proxy;
  }

  /** The address of the server through the proxy; without a path it ends without a slash, as an origin does. */
  get url(): string {
    const through = new URL(this.#target);
    through.hostname = this.#host;
    through.port = String(this.#port);
    return through.href.replace(/\/$/, '');
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Connections accepted since the start. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Bytes passed to clients since the start. */
  get bytesToClient(): number {
    return this.#bytesToClient;
  }

  /** Each piece of data waits this long, in both directions. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /**
   * Open and later connections stay open, and not a byte (nor an end) passes: a dead peer as seen behind a load
   * balancer. Connections black-holed once never come back to life.
   */
  blackHole(): void {
    this.#isBlackHole = true;
    for (const pair of this.#pairs) pair.isBlackHoled = true;
  }

  /** Later connections are forwarded again. */
  forward(): void {
    this.#isBlackHole = false;
    this.#resetAfterBytes = undefined;
  }

  /** Sends RST on both sides of every open connection; later ones are forwarded. */
  reset(): void {
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  }

  /** The next `bytes` to any client pass, then that connection is reset: an answer torn in the middle. Once. */
  resetAfter(bytes: number): void {
    this.#resetAfterBytes = bytes;
  }

  /**
   * The server gets these texts on one connection, one after the other, and its client a reset in place of the answer to
   * the last one. Once.
   */
  loseAnswerTo(texts: readonly string[]): void {
    this.#lostRequest = texts;
    for (const pair of this.#pairs) pair.passedTexts = 0;
  }

  /** Whether the answer that `loseAnswerTo` names is lost by now. */
  get hasLostAnswer(): boolean {
    return this.#lostRequest.length === 0;
  }

  /** The server gets this text, and the client what comes after it on that connection at `release` and not before. Once. */
  holdAnswerTo(text: string): void {
    this.#heldRequest = text;
    this.#hasHeldAnswer = false;
  }

  /** Whether the answer that `holdAnswerTo` names has come. */
  get hasHeldAnswer(): boolean {
    return this.#hasHeldAnswer;
  }

  /** Passes what is held. */
  release(): void {
    for (const pair of this.#pairs) {
      const { held = [] } = pair;
      pair.held = undefined;
      for (const data of held) this.#write(pair, pair.client, data);
    }
  }

  /** Ends the direction to the client (FIN) of every open connection; the other direction stays open. */
  halfClose(): void {
    for (const { client } of this.#pairs) client.end();
  }

  /** Ends every connection and refuses later ones: the process behind the port is gone. */
  async refuse(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    const closed = listener === undefined ? undefined : once(listener, 'close');
    listener?.close();
    this.reset();
    await closed;
  }

  /** Listens again, on the same port. */
  async accept(): Promise<void> {
    if (this.#listener !== undefined) return;
    const listener = createServer({ allowHalfOpen: true }, (client) => this.#connect(client));
    listener.listen(this.#port, this.#host);
    await once(listener, 'listening');
    this.#listener = listener;
  }

  /** Stops listening and ends all connections. */
  async close(): Promise<void> {
    await this.refuse();
  }

  #connect(client: Socket): void {
    this.#accepted += 1;
    const { hostname: host, port } = this.#target;
    const server = createConnection({ host, port: Number(port || 443), allowHalfOpen: true });
    const pair: Pair = { client, server, isBlackHoled: this.#isBlackHole, passedTexts: 0 };
    this.#pairs.add(pair);
    this.#pass(pair, client, server);
    this.#pass(pair, server, client);
    for (const socket of [client, server]) {
      // Errors are expected here: 'close' passes them to the other side.
      socket.on('error', () => undefined);
      socket.on('close', () => this.#drop(pair));
    }
  }

  #pass(pair: Pair, from: Socket, to: Socket): void {
    from.on('data', (data: Buffer) => this.#later(pair, () => this.#write(pair, to, data)));
    from.on('end', () => this.#later(pair, () => to.end()));
  }

  /** Runs after the delay; timers of one length keep the order of the data. */
  #later(pair: Pair, action: () => void): void {
    const act = (): void => {
      if (!pair.isBlackHoled) action();
    };
    if (this.#delayMs === 0) act();
    else setTimeout(act, this.#delayMs);
  }

  #write(pair: Pair, to: Socket, data: Buffer): void {
    if (to.destroyed || to.writableEnded) return;
    if (to !== pair.client) {
      const text = this.#lostRequest[pair.passedTexts];
      if (text !== undefined && data.includes(text)) pair.passedTexts += 1;
      if (this.#heldRequest !== undefined && data.includes(this.#heldRequest)) {
        this.#heldRequest = undefined;
        pair.held = [];
      }
      to.write(data);
      return;
    }
    if (pair.held) {
      pair.held.push(data);
      this.#hasHeldAnswer = true;
      return;
    }
    if (this.#lostRequest.length > 0 && pair.passedTexts === this.#lostRequest.length) {
      this.#lostRequest = [];
      pair.client.resetAndDestroy();
      pair.server.resetAndDestroy();
      return;
    }
    const limit = this.#resetAfterBytes;
    const passing = limit === undefined ? data : data.subarray(0, limit);
    this.#bytesToClient += passing.length;
    to.write(passing);
    if (limit === undefined) return;
    this.#resetAfterBytes = limit - passing.length;
    if (this.#resetAfterBytes > 0) return;
    this.#resetAfterBytes = undefined;
    pair.client.resetAndDestroy();
    pair.server.resetAndDestroy();
  }

  /** Ends a pair when one side has ended, unless it is black-holed: then the other side must not notice. */
  #drop(pair: Pair): void {
    if (pair.isBlackHoled && !(pair.client.destroyed && pair.server.destroyed)) return;
    if (!this.#pairs.delete(pair)) return;
    pair.client.destroy();
    pair.server.destroy();
  }
}

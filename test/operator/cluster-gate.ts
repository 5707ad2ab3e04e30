// A gate in front of the API server of the cluster: it passes calls on as they are, counts the writes, and lets a test answer,
// hold or change single calls, and hold, cut or silence the watches alone. Clients speak plain http to it.
import { writeFile } from 'node:fs/promises';
import { type ClientRequest, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, type RequestOptions, request as send } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { adminKubeconfig } from '../kube/cluster.ts';
import { type Listening, listen } from '../support/listen.ts';
import type { OperatorOptions } from './operator-fixture.ts';

export interface GateCall {
  method: string;
  path: string;
  /** It may be changed before the call goes on. */
  query: URLSearchParams;
  /** Of the bearer token; undefined: the call has none, and gets the credentials of the administrator. */
  authorization: string | undefined;
  isWatch: boolean;
}

export interface GateAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: object;
}

export interface PassedWrite {
  method: string;
  path: string;
  body: string;
  /** When it came, ms of the process's clock. */
  startedAtMs: number;
  /** Of the answer of the API server; undefined while there is none. */
  status: number | undefined;
}

interface OpenWatch {
  call: GateCall;
  to: ServerResponse;
  mode: 'passes' | 'held' | 'silent' | 'torn';
  held: Buffer[];
}

/** A Status as the API server writes it. */
export const statusBody = (code: number, reason: string, message: string): object => ({
  ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure' },
  ...{ message, reason, code },
});

export class ClusterGate {
  /** The answer in place of that of the API server; undefined: the call is passed on. */
  answer: (call: GateCall) => GateAnswer | undefined = () => undefined;
  /** The call is passed on when this resolves. It may change `call.query`. */
  before: (call: GateCall) => unknown = () => undefined;
  /** The answer goes back when this resolves: the API server has done what it was asked for. */
  after: (call: GateCall) => unknown = () => undefined;
  /** What the API server was asked to change, Leases and Events aside, in order. */
  writes: PassedWrite[] = [];
  /** Calls that the gate has answered itself. */
  answered = 0;
  readonly #server: string;
  readonly #options: RequestOptions;
  readonly #agent: Agent;
  readonly #watches = new Set<OpenWatch>();
  #listening: Listening | undefined;
  #isHolding: boolean = false;

  private constructor(server: string, options: RequestOptions) {
    this.#server = server;
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true });
  }

  static async start(kubeconfig = adminKubeconfig): Promise<ClusterGate> {
    const config = loadKubeConfig(kubeconfig);
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    const gate = new ClusterGate(config.getCurrentCluster()?.server ?? '', options);
    const server = createServer((from, to) => {
      gate.#serve(from, to).catch(() => to.destroy());
    });
    gate.#listening = await listen(server);
    return gate;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listening?.port}`;
  }

  /** Through the gate, as the administrator or by a token of its own. */
  config(user: object = {}): KubeConfig {
    const config = new KubeConfig();
    config.loadFromClusterAndUser(
      { name: 'gate', server: this.url, skipTLSVerify: true },
      { name: 'user', ...user },
    );
    return config;
  }

  /** For `startOperator` of the fixture. */
  get options(): Pick<OperatorOptions, 'makeTransport'> {
    return {
      makeTransport: (options) => new KubeTransport({ ...options, loadConfig: () => this.config() }),
    };
  }

  /** A kubeconfig file for a process. */
  async writeKubeconfig(folder: string): Promise<string> {
    const file = join(folder, `kubeconfig-${this.#listening?.port}`);
    await writeFile(file, this.config().exportConfig());
    return file;
  }

  /** Writes that the API server took, of paths that end in this. */
  stored(method: string, end: string): PassedWrite[] {
    return this.writes.filter(
      (write) => write.method === method && write.path.endsWith(end) && (write.status ?? 500) < 300,
    );
  }

  /** Watches that are open and pass what they hear. */
  openWatches(plural: string): number {
    return [...this.#watches].filter(
      ({ call, mode }) => call.path.endsWith(`/${plural}`) && mode === 'passes',
    ).length;
  }

  /** Open watches stay open, and what they hear waits until `releaseWatches`: a stale cache. Later ones too. */
  holdWatches(): void {
    this.#isHolding = true;
    for (const watch of this.#watches) watch.mode = 'held';
  }

  releaseWatches(): void {
    this.#isHolding = false;
    for (const watch of this.#watches) {
      if (watch.mode !== 'held') continue;
      watch.mode = 'passes';
      for (const data of watch.held.splice(0)) watch.to.write(data);
    }
  }

  /** Open watches hear nothing more, and do not end. Later ones are not concerned. */
  silenceWatches(): void {
    for (const watch of this.#watches) watch.mode = 'silent';
  }

  /** The connection of each open watch breaks in the middle of its next event. */
  tearWatches(): void {
    for (const watch of this.#watches) watch.mode = 'torn';
  }

  /** Ends each open watch of a resource with an ERROR event. */
  failWatches(plural: string, status: object): void {
    for (const { call, to } of this.#watches)
      if (call.path.endsWith(`/${plural}`)) to.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n`);
  }

  async close(): Promise<void> {
    await this.#listening?.close();
    this.#agent.destroy();
  }

  async #serve(from: IncomingMessage, to: ServerResponse): Promise<void> {
    const url = new URL(from.url ?? '/', 'http://gate');
    const { method = '', headers } = from;
    const isWatch = url.searchParams.get('watch') === 'true';
    const call = {
      method,
      path: url.pathname,
      query: url.searchParams,
      authorization: headers.authorization,
      isWatch,
    };
    to.on('error', () => undefined); // the operator may end before the answer does
    const body = await buffer(from);
    const own = this.answer(call);
    if (own !== undefined) {
      this.answered += 1;
      to.writeHead(own.status, { 'content-type': 'application/json', ...own.headers });
      to.end(JSON.stringify(own.body ?? {}));
      return;
    }
    await this.before(call);
    if (to.destroyed) return;
    const write = this.#note(call, body);
    const onward = this.#send(call, headers, async (answer) => {
      if (write !== undefined) write.status = answer.statusCode;
      await this.after(call);
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => to.destroy());
      if (isWatch) this.#passWatch(call, answer, to);
      else answer.pipe(to);
    });
    onward.on('error', () => to.destroy());
    to.on('close', () => onward.destroy());
    onward.end(body);
  }

  #note({ method, path }: GateCall, body: Buffer): PassedWrite | undefined {
    if (method === 'GET' || /\/(leases|events)\b/.test(path)) return undefined;
    const write = { method, path, body: body.toString(), startedAtMs: performance.now(), status: undefined };
    this.writes.push(write);
    return write;
  }

  #send(
    { method, path, query, authorization }: GateCall,
    headers: IncomingMessage['headers'],
    onAnswer: (answer: IncomingMessage) => Promise<void>,
  ): ClientRequest {
    const search = query.size === 0 ? '' : `?${query}`;
    const { host: _host, connection: _connection, ...passed } = headers;
    const own = authorization === undefined ? (this.#options.headers as Record<string, string>) : {};
    const { hostname, port } = new URL(this.#server);
    return send(
      {
        ...this.#options,
        ...{ hostname, port, method, path: `${path}${search}`, agent: this.#agent },
        headers: { ...passed, ...own },
      },
      (answer) => {
        onAnswer(answer).catch(() => answer.destroy());
      },
    );
  }

  #passWatch(call: GateCall, answer: IncomingMessage, to: ServerResponse): void {
    const watch: OpenWatch = { call, to, mode: this.#isHolding ? 'held' : 'passes', held: [] };
    this.#watches.add(watch);
    to.flushHeaders();
    to.on('close', () => this.#watches.delete(watch));
    answer.on('data', (data: Buffer) => {
      if (watch.mode === 'passes') to.write(data);
      if (watch.mode === 'held') watch.held.push(data);
      if (watch.mode !== 'torn') return;
      to.write(data.subarray(0, Math.floor(data.length / 2)), () => to.destroy());
    });
    answer.on('end', () => watch.mode === 'silent' || to.end());
  }
}

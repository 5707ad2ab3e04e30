// Turns a KubeConfig into an address, headers and an undici dispatcher, and keeps them fresh.
// There is one dispatcher per cluster address and set of certificates.

import { createHash } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import type { SecureContextOptions } from 'node:tls';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';

export interface KubeConnection {
  /** The cluster's address, without a slash at the end. */
  server: string;
  headers: Record<string, string>;
  dispatcher: Dispatcher;
}

interface TlsOptions extends SecureContextOptions {
  servername?: string;
  rejectUnauthorized?: boolean;
}

/** Certificate files rotate, and reading them at each call would be slow. */
const freshMs = 60_000;
/** Node's TCP keep-alive finds a dead peer about ten seconds after this silence. */
const keepAliveInitialDelay = 15_000;
const connectTimeoutMs = 5000;

export class KubeConnections {
  readonly #loadConfig: () => KubeConfig;
  #config: KubeConfig | undefined;
  #current: Promise<KubeConnection> | undefined;
  #readAtMs = 0;
  #dispatcher: { key: string; dispatcher: Dispatcher } | undefined;
  readonly #retiring = new Set<Promise<void>>();

  constructor(loadConfig: () => KubeConfig) {
    this.#loadConfig = loadConfig;
  }

  /** The connection to use now. Throws what reading the configuration throws (missing file, failed plug-in). */
  current(): Promise<KubeConnection> {
    const nowMs = performance.now();
    if (this.#current !== undefined && nowMs - this.#readAtMs < freshMs) return this.#current;
    this.#readAtMs = nowMs;
    const reading = this.#read();
    this.#current = reading;
    reading.catch(() => {
      if (this.#current === reading) this.#current = undefined;
    });
    return reading;
  }

  /** After a 401: drops what this class and the KubeConfig have cached, unless that is newer than `used`. */
  async refresh(used: KubeConnection): Promise<KubeConnection> {
    const known = await this.#current;
    if (known !== undefined && known !== used) return known;
    this.#config = undefined;
    this.#current = undefined;
    return this.current();
  }

  /** Ends all connections, including those with a call in progress. */
  async close(): Promise<void> {
    const last = this.#dispatcher?.dispatcher;
    this.#dispatcher = undefined;
    this.#current = undefined;
    await last?.destroy();
    await Promise.all(this.#retiring);
  }

  async #read(): Promise<KubeConnection> {
    this.#config ??= this.#loadConfig();
    const config = this.#config;
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new Error('The kubeconfig names no current cluster.');
    const options: RequestOptions = {};
    await config.applyToHTTPSOptions(options);
    return {
      server: cluster.server.replace(/\/+$/, ''),
      headers: readHeaders(options),
      dispatcher: this.#dispatcherFor(cluster.server, cluster.proxyUrl, options),
    };
  }

  #dispatcherFor(server: string, proxyUrl: string | undefined, options: RequestOptions): Dispatcher {
    const tls = readTls(options);
    const key = digest(server, proxyUrl, tls);
    const known = this.#dispatcher;
    if (known?.key === key) return known.dispatcher;
    const dispatcher = createDispatcher(proxyUrl, tls);
    this.#dispatcher = { key, dispatcher };
    if (known !== undefined) this.#retire(known.dispatcher);
    return dispatcher;
  }

  /** Calls in progress finish on the old certificates; a watch ends when the server's time limit is over. */
  #retire(dispatcher: Dispatcher): void {
    const closing = dispatcher.close().catch(() => undefined);
    this.#retiring.add(closing);
    void closing.finally(() => this.#retiring.delete(closing));
  }
}

function createDispatcher(proxyUrl: string | undefined, tls: TlsOptions): Dispatcher {
  // The transport's signals bound each call. A watch may be silent for as long as nothing happens.
  const common = { allowH2: false, headersTimeout: 0, bodyTimeout: 0 };
  const socket = { keepAlive: true, keepAliveInitialDelay, timeout: connectTimeoutMs };
  if (proxyUrl === undefined || proxyUrl === '')
    return new Agent({ ...common, connect: { ...tls, ...socket } });
  if (!/^https?:/.test(proxyUrl)) {
    throw new Error(`The kubeconfig's proxy-url ${proxyUrl} is not supported: use an http or https proxy.`);
  }
  return new ProxyAgent({ ...common, uri: proxyUrl, requestTls: { ...tls, ...socket }, connect: socket });
}

function readTls(options: RequestOptions): TlsOptions {
  const { ca, cert, key, pfx, passphrase, servername, rejectUnauthorized } = options;
  const tls: TlsOptions = { ca, cert, key, pfx, passphrase, servername, rejectUnauthorized };
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
}

function digest(server: string, proxyUrl: string | undefined, tls: TlsOptions): string {
  return createHash('sha256')
    .update(JSON.stringify([server, proxyUrl, tls]))
    .digest('base64');
}

function readHeaders(options: RequestOptions): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    // A token file often ends in a newline, which a header must not contain.
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim();
  }
  if (typeof options.auth === 'string') {
    headers.authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;
  }
  return headers;
}

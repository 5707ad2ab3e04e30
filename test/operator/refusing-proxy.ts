// A proxy in front of an api that answers some calls itself: a load balancer with its own pages, an api in trouble.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ProxyAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

export class RefusingProxy {
  readonly #target: URL;
  readonly #server = createServer((from, to) => this.#serve(from, to));
  /** Undefined: the call is forwarded to the api. */
  answer: (call: { method: string; path: string }) => ProxyAnswer | undefined = () => undefined;
  /** Calls answered here. */
  answered = 0;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  static async start(target: string): Promise<RefusingProxy> {
    const proxy = new RefusingProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(from: IncomingMessage, to: ServerResponse): void {
    const { method = '', url: path = '', headers } = from;
    const own = this.answer({ method, path });
    if (own !== undefined) {
      this.answered += 1;
      from.resume();
      to.writeHead(own.status, own.headers).end(own.body ?? '');
      return;
    }
    const { hostname, port } = this.#target;
    const onward = request({ hostname, port, method, path, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => to.destroy());
      answer.pipe(to);
    });
    onward.on('error', () => to.destroy());
    to.on('error', () => undefined); // the operator may go in the middle of an answer
    to.on('close', () => onward.destroy());
    from.pipe(onward);
  }
}

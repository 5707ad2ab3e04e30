// A proxy in front of an api that answers some calls itself, as a load balancer or a failing api does.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type Listening, listen } from '../support/listen.ts';

export interface ProxyAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: string;
}

export class RefusingProxy {
  #target: URL;
  #listening: Listening | undefined;
  /** Undefined: the call is forwarded to the api. */
  answer: (call: { method: string; path: string }) => ProxyAnswer | undefined = () => undefined;
  /** A call is forwarded, or answered, when the promise resolves. */
  hold: (path: string) => Promise<unknown> | undefined = () => undefined;
  /** The number of calls that the proxy has answered itself. */
  answered = 0;
  /** The calls that the api got. */
  forwarded: { method: string; path: string }[] = [];

  constructor(target: string) {
    this.#target = new URL(target);
  }

  static async start(target: string): Promise<RefusingProxy> {
    const proxy = new RefusingProxy(target);
    proxy.#listening = await listen(
      createServer((from, to) => {
        const held = proxy.hold(from.url ?? '');
        if (held === undefined) proxy.#serve(from, to);
        else void held.then(() => to.destroyed || proxy.#serve(from, to));
      }),
    );
    return proxy;
  }

  /** Later calls go to another api. */
  moveTo(target: string): void {
    this.#target = new URL(target);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listening?.port}`;
  }

  async close(): Promise<void> {
    await this.#listening?.close();
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
    this.forwarded.push({ method, path });
    const { hostname, port } = this.#target;
    const onward = request({ hostname, port, method, path, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => to.destroy());
      answer.pipe(to);
    });
    onward.on('error', () => to.destroy());
    to.on('error', () => undefined); // the operator may end before the answer does
    to.on('close', () => onward.destroy());
    from.pipe(onward);
  }
}

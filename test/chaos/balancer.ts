// The balancer between the senders and the apis. Each monitor has its api, and the balancer leaves one out that has refused
// connections for a while, until it takes them again. The product counts on no more than that: it waits 30 s for an api
// that died (docs/contract/deadlines.md), and a loaded machine may take longer to start it again.
import { randomUUID } from 'node:crypto';
import { get } from 'node:http';

const CHECK_MS = 1_000;
const LEAVES_OUT_MS = 20_000;

export class Balancer {
  readonly #apis: readonly string[];
  /** Of each api: since when it refuses connections. */
  readonly #refusesSince: (number | undefined)[] = [];

  constructor(apis: readonly string[]) {
    this.#apis = apis;
    apis.forEach((_, number) => {
      setInterval(() => this.#check(number), CHECK_MS);
    });
  }

  /** The number of the api to which the beats of this monitor go now. */
  choose(index: number): number {
    const numbers = this.#apis.map((_, number) => number);
    const open = numbers.filter((number) => !this.#isLeftOut(number));
    const own = index % numbers.length;
    return open.length === 0 || open.includes(own) ? own : (open[index % open.length] ?? own);
  }

  #isLeftOut(number: number): boolean {
    const since = this.#refusesSince[number];
    return since !== undefined && performance.now() - since >= LEAVES_OUT_MS;
  }

  #check(number: number): void {
    const began = performance.now();
    const check = get(`${this.#apis[number]}/ping/${randomUUID()}`, { agent: false });
    check.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') this.#refusesSince[number] ??= began;
    });
    check.once('response', (answer) => {
      this.#refusesSince[number] = undefined;
      answer.on('error', () => undefined);
      answer.resume();
    });
  }
}

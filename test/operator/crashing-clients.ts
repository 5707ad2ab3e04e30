// Clients of an operator that dies at its n-th write: just before it, or after it with the answer lost. From then on
// they send nothing, like a dead process.

import { type ApiAnswer, type CallOptions, RestClient } from '../../src/client/rest-client.ts';
import {
  contractOperations,
  type OperationId,
  type OperationRequest,
} from '../../src/contract/operations/operations.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { waitFor } from '../support/wait-for.ts';
import type { OperatorFixture, OperatorOptions } from './operator-fixture.ts';

const OPERATIONS = contractOperations();

export class Crash {
  readonly #at: number;
  readonly #mode: 'before' | 'after';
  readonly died = Promise.withResolvers<void>();
  writes: string[] = [];
  isDead = false;

  constructor(at: number, mode: 'before' | 'after') {
    this.#at = at;
    this.#mode = mode;
  }

  async write<T>(name: string, effect: () => Promise<T>): Promise<T> {
    if (this.isDead) throw new Error('killed');
    this.writes.push(name);
    if (this.writes.length < this.#at) return await effect();
    this.isDead = true;
    if (this.#mode === 'after') await effect().catch(() => undefined);
    this.died.resolve();
    throw new Error(`killed ${this.#mode} ${name}`);
  }

  async read<T>(effect: () => Promise<T>): Promise<T> {
    if (this.isDead) throw new Error('killed');
    return await effect();
  }

  /** For `startOperator`. */
  get clients(): Pick<OperatorOptions, 'makeTransport' | 'makeClient'> {
    return {
      makeTransport: (options) => new CrashingTransport(options, this),
      makeClient: (options) => new CrashingClient(options, this),
    };
  }
}

/** Runs an operator until it dies or `isDone`. Returns whether it died. */
export async function runUntilDead(
  fixture: OperatorFixture,
  crash: Crash,
  isDone: () => Promise<unknown>,
  options: OperatorOptions = {},
): Promise<boolean> {
  const operator = await fixture.startOperator({ ...crash.clients, ...options });
  const end = new AbortController();
  const done = waitFor(isDone, { what: 'the work is done', signal: end.signal });
  done.catch(() => undefined);
  await Promise.race([crash.died.promise, done]);
  end.abort();
  await operator.stop();
  return crash.isDead;
}

class CrashingTransport extends KubeTransport {
  readonly #crash: Crash;

  constructor(options: ConstructorParameters<typeof KubeTransport>[0], crash: Crash) {
    super(options);
    this.#crash = crash;
  }

  override async request(request: KubeRequest): Promise<unknown> {
    const send = () => super.request(request);
    // Events are recorded concurrently with the work, in no order.
    if (request.method === 'GET' || request.path.includes('/events')) return await this.#crash.read(send);
    return await this.#crash.write(`${request.method} ${request.path}`, send);
  }
}

class CrashingClient extends RestClient {
  readonly #crash: Crash;

  constructor(options: ConstructorParameters<typeof RestClient>[0], crash: Crash) {
    super(options);
    this.#crash = crash;
  }

  override async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options?: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    const send = () => super.call(operation, request, options);
    if (OPERATIONS[operation].method === 'GET') return await this.#crash.read(send);
    return await this.#crash.write(operation, send);
  }

  override async sendBeat(...args: Parameters<RestClient['sendBeat']>): Promise<void> {
    const [, beat] = args;
    return await this.#crash.write(`beat ${beat.idempotencyKey}`, () => super.sendBeat(...args));
  }
}

// The benchmark of the operator: what a piece of work costs, in processor time of each process, in requests of Kubernetes and
// in calls of `/v1`.
import { since } from './metrics-text.ts';
import type { OperatorProcess, OperatorProduct, Processors } from './operator-product.ts';

export type Counts = ReadonlyMap<string, number>;
export type Milliseconds = Processors & { operator: number };

export interface Cost {
  seconds: number;
  ms: Milliseconds;
}

/** Without an operator, its processor time is 0. */
export async function costOf(
  product: OperatorProduct,
  operator: OperatorProcess | undefined,
  work: () => Promise<unknown>,
): Promise<Cost> {
  const read = async () => ({
    ...(await product.processors()),
    operator: (await operator?.processorMs()) ?? 0,
  });
  const before = await read();
  const startedMs = performance.now();
  await work();
  const seconds = (performance.now() - startedMs) / 1_000;
  const { apiserver, etcd, api, postgres, operator: own } = await read();
  const ms = {
    apiserver: apiserver - before.apiserver,
    etcd: etcd - before.etcd,
    api: api - before.api,
    postgres: postgres - before.postgres,
    operator: own - before.operator,
  };
  return { seconds, ms };
}

export interface Requests {
  all: Counts;
  /** Of the operator, but those of Events. */
  writes: Counts;
  events: number;
  reads: Counts;
}

/** What the API server has answered since. The elections of a leader are left out: they go on whatever happens. */
export async function requestsSince(product: OperatorProduct, before: Counts): Promise<Requests> {
  const all = new Map(
    [...since(before, await product.requests())].filter(([name]) => !name.endsWith(' leases')),
  );
  const only = (isOne: (verb: string, resource: string) => boolean) =>
    new Map([...all].filter(([name]) => isOne(...(name.split(' ') as [string, string]))));
  const isRead = (verb: string) => verb === 'GET' || verb === 'LIST';
  const isWrite = (verb: string) => !isRead(verb) && verb !== 'WATCH' && verb !== 'CONNECT';
  // The benchmark creates the Monitors and Rules.
  const isOurs = (verb: string, resource: string) =>
    verb === 'POST' && (resource === 'monitors' || resource === 'rules');
  const events = only((verb, resource) => isWrite(verb) && resource === 'events');
  return {
    all,
    writes: only((verb, resource) => isWrite(verb) && resource !== 'events' && !isOurs(verb, resource)),
    events: [...events.values()].reduce((sum, count) => sum + count, 0),
    reads: only(isRead),
  };
}

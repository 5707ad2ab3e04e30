// The release `beatkeeper` of a cluster as its users see it: Monitors of a namespace, publish addresses, the API.
import { fetchServed } from '../support/fetch-served.ts';
import { waitFor } from '../support/wait-for.ts';
import type { Cluster } from './cluster.ts';
import type { MonitorObject, MonitorStatus } from './objects.ts';

export interface Product {
  findMonitor(name: string): Promise<MonitorObject | undefined>;
  /** Waits until the status is so, and returns it. `what` is for the error message. */
  waitForMonitor(
    name: string,
    what: string,
    is: (status: MonitorStatus) => boolean | undefined,
  ): Promise<MonitorStatus>;
  waitUntilReady(...names: string[]): Promise<void>;
  /** The publish address of a Monitor, as this machine reaches it. */
  beatUrl(name: string): Promise<string>;
  /** Sends a beat, and again while the answer is 503. Throws any answer but 200. */
  beat(name: string): Promise<void>;
  /** Of the API, as this machine reaches it. */
  apiUrl(): Promise<string>;
  /** A token of the service account that stands for this role. */
  tokenOf(role: string): Promise<string>;
  /** GET of a path of the API, and again while the answer is 503. Default: with the token of a viewer. */
  callApi(path: string, token?: string): Promise<Response>;
  /** The same once, whatever the answer is. */
  callApiOnce(path: string): Promise<Response>;
  /** The body of the answer of `callApi`. Throws one that is no success. */
  readApi<T>(path: string): Promise<T>;
}

/** `system` is the namespace of the release, `team` that of the Monitors, and its project. */
export function useProduct(cluster: Cluster, system: string, team: string): Product {
  // This machine does not use the cluster's DNS, so the address of the Service replaces its name.
  const address = () => cluster.read('{.spec.clusterIP}', system, 'service', 'beatkeeper-api');
  const apiUrl = async () => `http://${await address()}`;
  const findMonitor = (name: string) => cluster.find<MonitorObject>('monitor', name, team);
  const tokenOf = async (role: string) => {
    const create = ['-n', system, 'create', 'token', `beatkeeper-${role}`, '--audience', 'beatkeeper'];
    return (await cluster.kubectl(...create)).trim();
  };
  const beatUrl = async (name: string) => {
    const url = new URL(await cluster.secret(`${name}-beat`, 'url', team));
    url.hostname = await address();
    return url.href;
  };
  const requestOf = async (path: string, token?: string) => {
    const headers = {
      authorization: `Bearer ${token ?? (await tokenOf('viewer'))}`,
      'service-project': team,
    };
    return [`${await apiUrl()}${path}`, { headers }] as const;
  };
  const callApi = async (path: string, token?: string) =>
    await fetchServed(...(await requestOf(path, token)));
  return {
    findMonitor,
    waitForMonitor: (name, what, is) =>
      waitFor(
        async () => {
          const { status } = (await findMonitor(name)) ?? {};
          return status !== undefined && is(status) && status;
        },
        { what: `${name} ${what}`, timeoutMs: 300_000, intervalMs: 500 },
      ),
    async waitUntilReady(...names) {
      const monitors = names.map((name) => `monitor/${name}`);
      await cluster.kubectl('-n', team, 'wait', '--for=condition=Ready', ...monitors, '--timeout=300s');
    },
    beatUrl,
    async beat(name) {
      const answer = await fetchServed(await beatUrl(name), { method: 'POST' });
      if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${await answer.text()}`);
    },
    apiUrl,
    tokenOf,
    callApi,
    callApiOnce: async (path) => await fetch(...(await requestOf(path))),
    async readApi<T>(path: string) {
      const answer = await callApi(path);
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    },
  };
}

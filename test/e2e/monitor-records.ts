// What the API has recorded of the monitors of a project, as lines that a test compares: each observation with the number of its run,
// and each incident with its state.
import { isDeepStrictEqual } from 'node:util';
import type { Observation } from '../../src/contract/resources/beat.ts';
import type { Incident, TimelineEntry } from '../../src/contract/resources/incident.ts';
import { fetchServed } from '../support/fetch-served.ts';
import { waitFor } from '../support/wait-for.ts';
import type { Product } from './product.ts';

export interface MonitorRecord {
  monitorId: string;
  /** `1 start`, `1 fail 3: Job backup failed …`; by runs, and within one the oldest first. */
  observations: string[];
  /** `missed_deadline open`, the oldest first. */
  incidents: string[];
}

export interface MonitorRecords {
  /** By name of the monitor. */
  read(): Promise<Map<string, MonitorRecord>>;
  /** GET below `/v1/monitors/<its id>`. */
  get<T>(name: string, path?: string): Promise<T>;
  observationsOf(name: string): Promise<Observation[]>;
  incidentsOf(name: string): Promise<Incident[]>;
  timelineOf(incident: Incident | undefined): Promise<TimelineEntry[]>;
  /** Resolves when these are all observations of the monitor. */
  untilObserved(name: string, observations: readonly string[]): Promise<void>;
  /** Resolves when these are all incidents of the monitor. */
  untilIncidents(name: string, incidents: readonly string[]): Promise<void>;
}

interface ListedMonitor {
  monitorId: string;
  name: string;
  status: { lastSequence?: number };
}

/** Each reading asks for the lists of the project, and for the observations of the monitors that have new ones. */
export function recordsOf(product: Product, project: string): MonitorRecords {
  const known = new Map<string, { lastSequence: number; observations: Observation[] }>();
  let connection: Promise<{ url: string; headers: Record<string, string> }> | undefined;
  let running: Promise<Map<string, MonitorRecord>> | undefined;

  /** Asked once: a reading starts no programs. */
  const connect = async () => {
    const headers = {
      authorization: `Bearer ${await product.tokenOf('viewer')}`,
      'service-project': project,
    };
    return { url: await product.apiUrl(), headers };
  };
  async function get<T>(path: string): Promise<T> {
    connection ??= connect();
    const { url, headers } = await connection;
    const answer = await fetchServed(`${url}${path}`, { headers });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
  const list = async <T>(path: string) => (await get<{ items: T[] }>(`${path}?limit=200`)).items;

  async function readAll(): Promise<Map<string, MonitorRecord>> {
    const monitors = await list<ListedMonitor>('/v1/monitors');
    const incidents = await list<Incident>('/v1/incidents');
    const all = new Map<string, MonitorRecord>();
    for (const { monitorId, name, status } of monitors) {
      const { lastSequence = 0 } = status;
      if (known.get(monitorId)?.lastSequence !== lastSequence) {
        const observations = await list<Observation>(`/v1/monitors/${monitorId}/observations`);
        known.set(monitorId, { lastSequence, observations: observations.toReversed() });
      }
      const own = incidents.filter((one) => one.monitorId === monitorId).toReversed();
      all.set(name, {
        monitorId,
        observations: linesOf(name, known.get(monitorId)?.observations ?? []),
        incidents: own.map(({ kind, state }) => `${kind} ${state}`),
      });
    }
    return all;
  }
  /** Many wait at a time. */
  const read = () => {
    running ??= readAll().finally(() => {
      running = undefined;
    });
    return running;
  };
  const idOf = async (name: string) => (await read()).get(name)?.monitorId;
  const until = async (name: string, which: 'observations' | 'incidents', wanted: readonly string[]) => {
    let last: MonitorRecord | undefined;
    const isSo = async () => {
      last = (await read()).get(name);
      return isDeepStrictEqual(last?.[which], wanted);
    };
    const options = { what: `${name} has ${wanted.join(' | ')}`, timeoutMs: 300_000, intervalMs: 1_000 };
    await waitFor(isSo, options).catch((error: Error) => {
      throw new Error(`${error.message}; it has ${JSON.stringify(last)}`, { cause: error });
    });
  };
  return {
    read,
    get: async (name, path = '') => await get(`/v1/monitors/${await idOf(name)}${path}`),
    observationsOf: async (name) =>
      (await list<Observation>(`/v1/monitors/${await idOf(name)}/observations`)).toReversed(),
    incidentsOf: async (name) =>
      (await list<Incident>(`/v1/monitors/${await idOf(name)}/incidents`)).toReversed(),
    timelineOf: async (incident) => await list(`/v1/incidents/${incident?.incidentId}/timeline`),
    untilObserved: (name, wanted) => until(name, 'observations', wanted),
    untilIncidents: (name, wanted) => until(name, 'incidents', wanted),
  };
}

/** Names of Jobs and pods begin with that of the monitor, which stands for them. What says no more than its kind is left out. */
function linesOf(name: string, observations: readonly Observation[]): string[] {
  const runs = [...new Set(observations.map(({ runId }) => runId))];
  const lines = observations.map(({ kind, exitStatus, message = '', runId }) => {
    const words = message.replaceAll(new RegExp(`\\b${name}(-[a-z0-9]+)+`, 'g'), name);
    const isPlain = words === `Job ${name}.` || words === `Job ${name} completed.`;
    const code = exitStatus === undefined ? '' : ` ${exitStatus}`;
    return { run: runs.indexOf(runId) + 1, text: `${kind}${code}${isPlain ? '' : `: ${words}`}` };
  });
  return lines.toSorted((a, b) => a.run - b.run).map(({ run, text }) => `${run} ${text}`);
}

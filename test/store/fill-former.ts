// What an installation of the version before this one has: monitors with every kind of field and past, through calls of `/v1`
// and beats. Beats are counted as they are answered.
import { randomUUID } from 'node:crypto';
import type { ApiClient } from '../support/api-client.ts';
import { waitFor } from '../support/wait-for.ts';
import { PROJECT, type Running } from './former-fixture.ts';

const DAY = 86_400;
const HOUR_MS = 3_600_000;
const LONG = { intervalSeconds: DAY, graceSeconds: 3_600 };
/** Silence of two seconds is found. */
const SHORT = { intervalSeconds: 1, graceSeconds: 1, awaitFirstBeat: true };
const PAGED = { callback: { kind: 'named', alias: 'pager' } };
const RULES = {
  rows: { minimum: 10, rulePolicy: { consecutiveObservations: 1, severity: 'warning' } },
  seconds: { metricType: 'duration', maximum: 100, unit: 's' },
};

const far = new Date(Date.now() + 180 * DAY * 1000);
/** A time of day in half a year: no test runs when it comes. */
export const farCron = (time: string) => `${time} ${far.getUTCDate()} ${far.getUTCMonth() + 1} *`;

/** By id: each has the fields of one kind, or a past of one kind. */
const MONITORS: Readonly<Record<string, object>> = {
  full: {
    ...LONG,
    ...PAGED,
    description: 'Copies the orders.\nEach night.',
    labels: { team: 'shop', 'example.com/tier': '1' },
    jurisdiction: 'eu',
    awaitFirstBeat: false,
    maxRuntimeSeconds: 7_200,
    recoveryBeats: 2,
    missedBeatsToOpen: 3,
  },
  cron: { schedule: { cron: farCron('30 2'), timeZone: 'Europe/Berlin' }, graceSeconds: 600, ...PAGED },
  learned: { callback: { kind: 'disabled' } },
  inline: { ...LONG, callback: { kind: 'inline', url: 'http://127.0.0.1:9/hook' } },
  running: { ...LONG, maxRuntimeSeconds: DAY },
  failed: { ...LONG, ...PAGED },
  recovered: { ...LONG, ...PAGED },
  ruled: { ...LONG, ...PAGED },
  drafted: LONG,
  maintained: { ...LONG, ...PAGED },
  paused: LONG,
  archived: LONG,
  lateFormer: { ...SHORT, ...PAGED },
  latePresent: { ...SHORT, ...PAGED },
  lateAfterRollback: { ...SHORT, ...PAGED },
};

/**
 * Those that beat all the time. Each `late…` beats once, and is silent then. `learned` beats twice: what it learns depends on
 * the pace of the test.
 */
export const LIVING = Object.keys(MONITORS).filter((id) => !/^(late|learned|paused|archived)/.test(id));

export interface Filled {
  /** Paths of publish addresses by monitor. */
  addresses: Map<string, string>;
  /** Answered beats by monitor. */
  beats: Map<string, number>;
  /** Of everything that was made, what names it in a path. */
  things: Record<string, string>[];
}

export interface SentBeat {
  /** Such as `/fail`. */
  suffix?: string;
  body?: object;
}

/** Sends a beat to an api, and counts it once it is answered. */
export async function sendBeat(
  { api }: Pick<Running, 'api'>,
  { addresses, beats }: Filled,
  id: string,
  { suffix = '', body }: SentBeat = {},
): Promise<void> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomUUID() };
  const answer = await fetch(`${api.url}${addresses.get(id)}${suffix}`, {
    method: 'POST',
    ...(body && { headers, body: JSON.stringify(body) }),
  });
  if (answer.status !== 200) throw new Error(`${id}: ${answer.status} ${await answer.text()}`);
  beats.set(id, (beats.get(id) ?? 0) + 1);
}

export async function patchMonitor(owner: ApiClient, monitorId: string, patch: object): Promise<void> {
  const ifMatch = await etagOf(owner, monitorId);
  await owner.expectSuccess('updateMonitor', { params: { monitorId }, body: { patch }, ifMatch });
}

export async function etagOf(owner: ApiClient, monitorId: string): Promise<string> {
  return (await owner.expectSuccess('getMonitor', { params: { monitorId } })).etag;
}

/** Of all incidents `<monitor> <kind> <state>`, in the order of their names. */
export async function listIncidents(owner: ApiClient): Promise<string[]> {
  const { body } = await owner.expectSuccess('listIncidents', { query: { limit: 100 } });
  return body.items.map(({ monitorId, kind, state }) => `${monitorId} ${kind} ${state}`).sort();
}

/** The incidents of a project that was filled. */
export const FILLED_INCIDENTS = [
  'failed reported_failure open',
  'lateFormer missed_deadline open',
  'recovered reported_failure recovered',
  'ruled rule_violation open',
];

/** Makes the project, and returns when nothing is under way any more. Alerts go to `hookUrl`. */
export async function fill(running: Running, hookUrl: string): Promise<Filled> {
  const { owner } = running;
  const filled: Filled = { addresses: new Map(), beats: new Map(), things: [{}] };
  await makeTenancy(running, hookUrl, filled);
  for (const [monitorId, fields] of Object.entries(MONITORS)) {
    const body = { monitorId, name: `The job ${monitorId}`, ...fields };
    const monitor = (await owner.expectSuccess('createMonitor', { body })).body;
    filled.addresses.set(monitorId, new URL(monitor.publishUrl ?? '').pathname);
    filled.things.push({ monitorId });
  }
  await makePasts(running, filled);
  const isQuiet = async () => {
    const deliveries = (await owner.expectSuccess('listDeliveries', { query: { limit: 100 } })).body.items;
    const incidents = await listIncidents(owner);
    return (
      incidents.join() === FILLED_INCIDENTS.join() && deliveries.every(({ state }) => state === 'delivered')
    );
  };
  await waitFor(isQuiet, { what: 'the incidents and their deliveries' });
  for (const { incidentId } of (await owner.expectSuccess('listIncidents')).body.items)
    filled.things.push({ incidentId });
  for (const { deliveryId } of (await owner.expectSuccess('listDeliveries')).body.items)
    filled.things.push({ deliveryId });
  return filled;
}

async function makeTenancy({ organization, owner }: Running, url: string, { things }: Filled): Promise<void> {
  const project = (await organization.expectSuccess('createProject', { body: { name: PROJECT } })).body;
  const endpoint = (await owner.expectSuccess('createCallback', { body: { alias: 'pager', url } })).body
    .endpoint;
  await owner.expectSuccess('setDefaultCallback', { body: { endpointId: endpoint.id } });
  const issued = await owner.expectSuccess('createCredential', { body: { name: 'ci', preset: 'read' } });
  const { credentialId } = issued.body.credential;
  things.push({ projectId: project.projectId }, { endpointId: endpoint.id }, { credentialId });
}

async function makePasts(running: Running, filled: Filled): Promise<void> {
  const { owner } = running;
  const beat = (id: string, sent?: SentBeat) => sendBeat(running, filled, id, sent);
  const change = async (monitorId: string, body: object) => {
    const ifMatch = await etagOf(owner, monitorId);
    await owner.expectSuccess('changeMonitorLifecycle', { params: { monitorId }, body, ifMatch });
  };
  for (const id of ['full', 'ruled']) await patchMonitor(owner, id, { measurements: RULES });
  for (const id of ['cron', 'inline', 'maintained', 'paused', 'archived', 'lateFormer']) await beat(id);
  for (const id of ['learned', 'learned']) await beat(id);
  await beat('full', { suffix: '/start?rid=4f2a8b0e-0000-4000-8000-000000000001' });
  await beat('full', {
    body: {
      runId: '4f2a8b0e-0000-4000-8000-000000000001',
      message: 'All copied: ✓',
      measurements: { rows: 20, seconds: 3.5 },
      observedAt: new Date(Date.now() - 60_000).toISOString(),
    },
  });
  await beat('full', { suffix: '/log', body: { message: 'By the way' } });
  await beat('running', { suffix: '/start' });
  await beat('failed', { suffix: '/3' });
  await beat('recovered', { suffix: '/fail' });
  await beat('recovered');
  for (const rows of [20, 5]) await beat('ruled', { body: { measurements: { rows } } });
  for (const rows of [1, 2, 3]) await beat('drafted', { body: { measurements: { rows } } });
  await makeDrafts(owner, filled);
  const [startsAt, endsAt] = [1, 2].map((hours) => new Date(Date.now() + hours * HOUR_MS).toISOString());
  const maintenance = { startsAt, endsAt, reason: 'A new disk' };
  await change('maintained', { action: 'enter_maintenance', maintenance });
  await change('paused', { action: 'pause' });
  await change('archived', { action: 'archive' });
  const [failed] = (await owner.expectSuccess('listMonitorIncidents', { params: { monitorId: 'failed' } }))
    .body.items;
  const params = { incidentId: failed?.incidentId ?? '' };
  await owner.expectSuccess('acknowledgeIncident', { params });
}

async function makeDrafts(owner: ApiClient, { things }: Filled): Promise<void> {
  const params = { monitorId: 'drafted' };
  const create = async (minimum: number) => {
    const body = { proposal: { measurementKey: 'rows', definition: { minimum } } };
    const { id } = (await owner.expectSuccess('createDraft', { params, body })).body;
    things.push({ ...params, draftId: id });
    return id;
  };
  await create(2);
  await owner.expectSuccess('cancelDraft', { params, body: { draftId: await create(3) } });
}

// Processes of api that judge beats are killed at any moment, and each beat is sent until one answers: then the incidents are
// those that a replay of the observations opens (docs/contract/rules.md), and no beat counts twice.
// Holds: replayDraft.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type ApiProcess, startApiProcess } from '../support/api-process.ts';
import { observationsOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';
import { makeAddressed } from './monitor-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(() => api?.close());

const BEATS = 60;
const SENDERS = 3;
const KILLS = 3;

const byCount = (observations: number) => ({
  version: 1,
  transientConsequence: 'info',
  sustainedConsequence: 'critical',
  sustainedCriterion: { kind: 'observations', observations },
});
const RULES = {
  rows: { minimum: 3, maximum: 8, rulePolicy: { consecutiveObservations: 2, severity: 'warning' } },
  files: { maximumAbsoluteDelta: 4, zeroExpectation: 'nonzero', rulePolicy: byCount(2) },
  total: { metricType: 'counter', maximum: 5, maximumPercentageDelta: 50, missingPolicy: 'zero' },
  errors: { ratio: { denominator: 'rows', maximum: 1 }, transform: 'log1p', rulePolicy: byCount(3) },
};
const KEYS = Object.keys(RULES);

/** The processes that are beaten. One of them is killed, and another one starts. */
class Apis {
  readonly all: ApiProcess[] = [];

  async start(): Promise<void> {
    this.all.push(await startApiProcess({ databaseUrl: api.databaseUrl }));
  }

  async replaceOne(): Promise<void> {
    await this.all.shift()?.kill();
    await this.start();
  }
}

const anyRows = () => Math.floor(Math.random() * 11);

function anyMeasurements(): Record<string, number> {
  const all = { rows: anyRows(), files: anyRows(), total: anyRows(), errors: anyRows() };
  return Object.fromEntries(Object.entries(all).filter(() => Math.random() < 0.8));
}

/** One beat, sent under one key until it is taken. */
async function send(apis: Apis, path: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': randomUUID() };
  const body = JSON.stringify({ measurements: anyMeasurements() });
  let turn = 0;
  await waitFor(
    async () => {
      turn += 1;
      const { url } = apis.all[turn % apis.all.length] as ApiProcess;
      const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body });
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
      return true;
    },
    { what: 'the beat is taken', intervalMs: 20 },
  );
}

it('monitors whose beats were judged while processes were killed have the incidents that a replay opens', {
  timeout: 600_000,
}, async () => {
  const apis = new Apis();
  onTestFinished(async () => {
    for (const one of apis.all) await one.close();
  });
  for (let started = 0; started < 2; started += 1) await apis.start();
  const monitors = await Promise.all(
    Array.from({ length: 4 }, () => makeAddressed(api, { callback: { kind: 'disabled' } })),
  );
  for (const { patch } of monitors) await patch({ measurements: RULES });
  const since = new Date(Date.now() - 60_000).toISOString();
  let taken = 0;
  const senders = monitors.flatMap(({ address }) =>
    Array.from({ length: SENDERS }, async () => {
      for (let beat = 0; beat < BEATS / SENDERS; beat += 1) {
        await send(apis, new URL(address).pathname);
        taken += 1;
      }
    }),
  );
  for (let kill = 1; kill <= KILLS; kill += 1) {
    await waitFor(() => taken >= (kill * monitors.length * BEATS) / (KILLS + 1), { intervalMs: 5 });
    await apis.replaceOne();
  }
  await Promise.all(senders);

  let opened = 0;
  for (const { params } of monitors) {
    const { rows } = await api.pool.query('select monitor_key from monitors where monitor_id = $1', [
      params.monitorId,
    ]);
    const stored = await observationsOf(api.pool, { monitorKey: rows[0].monitor_key });
    expect(stored.map(({ sequence }) => sequence)).toEqual(Array.from({ length: BEATS }, (_, at) => at + 1));
    const query = { limit: 200 };
    const { body: page } = await api.read.expectSuccess('listMonitorIncidents', { params, query });
    for (const measurementKey of KEYS) {
      const proposal = { measurementKey, definition: {} };
      const { body: draft } = await api.manage.expectSuccess('createDraft', { params, body: { proposal } });
      const body = { draftId: draft.id, since };
      const { current } = (await api.read.expectSuccess('replayDraft', { params, body })).body;
      const lived = page.items.filter(({ measurement }) => measurement === measurementKey);
      expect(current.incidents.map(wordsOf).sort()).toEqual(lived.map(wordsOf).sort());
      expect(current.flaggedCount).toBe(
        stored.filter(({ violations }) =>
          violations?.some((one: { measurement: string }) => one.measurement === measurementKey),
        ).length,
      );
      opened += lived.length;
    }
  }
  expect(opened).toBeGreaterThan(0);
});

interface Named {
  rule?: string;
  state: string;
  severity: string;
  openedAt: string;
  openSequence?: number;
  lastSequence?: number;
  violationCount: number;
  summary: string;
}

function wordsOf({ rule, state, severity, openedAt, violationCount, summary, ...rest }: Named): string {
  const { openSequence, lastSequence } = rest;
  const numbers = [openSequence, lastSequence, violationCount];
  // A list says first that it has recovered.
  return [rule, state, severity, openedAt, ...numbers, summary.replace('Recovered: ', '')].join(' ');
}

// The benchmark of the operator while all monitors beat: the writes of the steady state, then changes of state among them.
import { setTimeout as delay } from 'node:timers/promises';
import { MONITORS } from '../src/operator/kinds/monitor/monitor-object.ts';
import { MinuteBeats } from './minute-beats.ts';
import { measureChanges, WatchedHealth } from './operator-changes.ts';
import { costOf, requestsSince } from './operator-cost.ts';
import { NAMESPACE, type OperatorProcess, type OperatorProduct } from './operator-product.ts';
import type { OperatorReport } from './operator-report.ts';

/** The first beat of each is news, and takes a minute. */
const FIRST_BEATS_MS = 65_000;
/** At once. */
const CHANGES = [100, 2_000];

/** Of so many Monitors as many changes at once as there may be: a quarter. */
export function changesAmong(monitors: number): number[] {
  return CHANGES.map((count) => Math.min(count, Math.round(monitors / 4)));
}

export interface BeatsOptions {
  /** Rounds of changes. */
  pairs: number;
  /** Of the steady state. */
  seconds: number;
  report: OperatorReport;
}

export async function measureBeats(
  product: OperatorProduct,
  operator: OperatorProcess,
  { pairs, seconds, report }: BeatsOptions,
): Promise<void> {
  const { rows } = await product.pool.query<{ id: string; path: string }>(
    "select monitor_id as id, '/ping/' || publish_address as path from monitors order by random()",
  );
  const beats = new MinuteBeats(product.apiUrl, new Map(rows.map(({ id, path }) => [id, path])));
  const watched = new WatchedHealth();
  try {
    beats.start();
    await measureSteadyState(product, operator, { beats, seconds, report });
    await watched.start(product.kube);
    const ids = rows.map(({ id }) => id);
    for (const size of new Set(changesAmong(ids.length))) {
      for (let round = 0; round < pairs; round += 1) {
        // Others in each round, as far as they go.
        const first = (round * size) % (ids.length - size + 1);
        report.changes(
          size,
          await measureChanges(product, { beats, watched }, ids.slice(first, first + size)),
        );
      }
    }
    report.beats(beats, await operator.memory());
  } finally {
    await watched.stop();
    await beats.stop();
  }
}

async function measureSteadyState(
  product: OperatorProduct,
  operator: OperatorProcess,
  { beats, seconds, report }: Pick<BeatsOptions, 'seconds' | 'report'> & { beats: MinuteBeats },
): Promise<void> {
  await delay(FIRST_BEATS_MS);
  const isQuiet = async () => (await operator.progress()).waiting < 10;
  await product.until('the first beats are written', isQuiet, { timeoutMs: 600_000, intervalMs: 500 });
  const before = await product.requests();
  const sentBefore = beats.sent;
  const passesBefore = (await operator.progress()).passes;
  const aSecond: number[] = [];
  const cost = await costOf(product, operator, async () => {
    const endsMs = performance.now() + seconds * 1_000;
    let [writes, atMs] = [(await operator.progress()).statusWrites, performance.now()];
    while (performance.now() < endsMs) {
      await delay(1_000);
      const { statusWrites } = await operator.progress();
      const nowMs = performance.now();
      aSecond.push(((statusWrites - writes) / (nowMs - atMs)) * 1_000);
      [writes, atMs] = [statusWrites, nowMs];
    }
  });
  const requests = await requestsSince(product, before);
  const sent = beats.sent - sentBefore;
  const passes = (await operator.progress()).passes - passesBefore;
  report.steady({ cost, requests, aSecond, sent, passes, agesSeconds: await readAges(product) });
}

/** How old the last beat is that each object shows, in ascending order. */
async function readAges({ kube }: OperatorProduct): Promise<number[]> {
  const ages: number[] = [];
  for await (const { status } of kube.listAll(MONITORS, { namespace: NAMESPACE }))
    ages.push((Date.now() - Date.parse(status?.lastBeatAt ?? '')) / 1_000);
  return ages.sort((a, b) => a - b);
}

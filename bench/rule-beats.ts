// Beats that eight rules judge against the same beats of monitors without rules: batches in transactions on one lane, each
// beat with eight measurements, in interleaved pairs.
import type { BeatItem } from '../src/ingest/apply-items.ts';
import { runBeatTransaction } from '../src/ingest/beat-transaction.ts';
import { Lane } from '../src/ingest/lane.ts';
import { MonitorDirectory } from '../src/ingest/monitor-directory.ts';
import { openPool } from '../src/store/postgres/pool.ts';
import { seedMonitors, seedProject } from '../test/support/seed.ts';
import { readWalBytes } from './bench-fixture.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { processorTimesOf } from './processor-time.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const MONITORS = 4_096;
const BATCH = 64;
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

/** Half of them are bounds, half look back at the value before. No beat of this benchmark breaks one. */
const RULES = Object.fromEntries(
  KEYS.map((key, index) => [key, index % 2 === 0 ? { minimum: 0 } : { maximumAbsoluteDelta: 1_000 }]),
);

/** Beats a second, and of a beat: microseconds of processor time, bytes of the write-ahead log. */
interface Run {
  rate: number;
  own: number;
  postgres: number;
  walBytes: number;
}

export async function measureRuleBeats(
  { databaseUrl }: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 60_000 });
  const lane = new Lane(databaseUrl);
  await lane.connect();
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, patienceMs: 60_000 });
  const project = await seedProject(pool);
  const prepare = async (measurements: object) => {
    const seeded = await seedMonitors(pool, project, MONITORS, { configuration: { measurements } });
    return await Promise.all(seeded.map(({ address }) => directory.load(address)));
  };
  const [judged, plain] = [await prepare(RULES), await prepare({})];
  await pool.query('vacuum analyze');
  let next = 0;
  const writeBatch = async (entries: typeof judged) => {
    const items = Array.from({ length: BATCH }, (): BeatItem => {
      const entry = entries[next++ % MONITORS];
      if (!entry) throw new Error('A monitor was not found.');
      const measurements = Object.fromEntries(KEYS.map((key) => [key, Math.random() * 1_000]));
      return { entry, beat: { kind: 'success', measurements } };
    });
    const results = await lane.write((connection, of) =>
      runBeatTransaction(connection, items, { ...of, directory }),
    );
    return results.filter((result) => result !== 'deferred' && result !== 'locked' && 'answer' in result)
      .length;
  };
  const run = async (entries: typeof judged): Promise<Run> => {
    let beats = 0;
    const walBefore = await readWalBytes(pool);
    const startedAt = performance.now();
    const { own, postgres } = await processorTimesOf(async () => {
      while (performance.now() - startedAt < seconds * 1_000) beats += await writeBatch(entries);
    });
    if (beats === 0) throw new VoidMeasurement('No beat was stored.');
    const rate = (beats * 1_000) / (performance.now() - startedAt);
    const walBytes = ((await readWalBytes(pool)) - walBefore) / beats;
    return { rate, own: (own * 1_000) / beats, postgres: (postgres * 1_000) / beats, walBytes };
  };
  // Until every state is built.
  for (let batch = 0; batch < (2 * MONITORS) / BATCH; batch += 1) await writeBatch(judged);
  // And until the larger rows have found room on their pages, as in an installation that has run for a while.
  await run(judged);
  await run(plain);
  const figures = { judged: [] as Run[], plain: [] as Run[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.plain.push(await run(plain));
    figures.judged.push(await run(judged));
  }
  const ratios = (figure: (run: Run) => number) =>
    ratiosTo(figures.plain.map(figure), figures.judged.map(figure));
  printRatios('Beats with eight measurements', [
    { name: 'with eight rules / without', values: ratios(({ rate }) => rate), goal: '>= 0.85' },
    {
      name: 'processor time of a beat without / with eight rules',
      values: ratios(({ own, postgres }) => 1 / (own + postgres)),
    },
  ]);
  const describe = (runs: readonly Run[]) => {
    const middle = (figure: (run: Run) => number) =>
      Math.round(median(runs.map(figure))).toLocaleString('en');
    return `${middle(({ rate }) => rate)} durable beats a second; a beat takes ${middle(({ own }) => own)} µs of \`api\`, ${middle(({ postgres }) => postgres)} of Postgres and ${middle(({ walBytes }) => walBytes)} bytes of write-ahead log`;
  };
  console.log(`\nMedians with rules: ${describe(figures.judged)}. Without: ${describe(figures.plain)}.`);
  await lane.close();
  await pool.end();
}

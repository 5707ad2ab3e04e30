// More beats than the server can take: how many it still answers durably with ten times as many callers as at its best, each
// of which calls again at once; and one second with twenty times the usual rate, which fits the queue.
import type { Environment } from './environment.ts';
import { type PhaseResult, prepareBeats } from './load.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const CONNECTIONS = 256;
const TIMES = 10;
const BURST_TIMES = 20;
/** A burst of it is half of what a server queues. */
const USUAL_RATE = 500;
/** Beats that find all of them busy wait at the sender, and their latency counts from when they should have gone out. */
const BURST_CONNECTIONS = 4_000;
const BURST_GOAL_MS = 2_000;

export async function measureOverload(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  const port = await environment.startServer('ping-server.ts', ['batches']);
  const run = async (connections: number) => {
    const [result] = await load.arrive({ port, connections, phases: [{ seconds }] });
    if (!result) throw new Error('The load has no result.');
    return result;
  };
  await run(CONNECTIONS);
  const figures = { usual: [] as PhaseResult[], over: [] as PhaseResult[] };
  const bursts: PhaseResult[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.usual.push(await run(CONNECTIONS));
    figures.over.push(await run(CONNECTIONS * TIMES));
    bursts.push(await burst());
  }
  const goodput = (results: readonly PhaseResult[]) => results.map(({ ok, seconds: of }) => ok / of);
  printRatios(`/ping under overload, ${CONNECTIONS} callers and ${TIMES} times as many`, [
    {
      name: `goodput at ${TIMES} times the callers / at its best`,
      values: ratiosTo(goodput(figures.usual), goodput(figures.over)),
      goal: '>= 0.9',
    },
    {
      name: `a second of ${BURST_TIMES} times ${USUAL_RATE} beats: not answered with OK / all`,
      values: bursts.map(({ ok, refused, failed }) => (refused + failed) / (ok + refused + failed)),
      goal: '0',
    },
    {
      name: `… 99th percentile, ms / ${BURST_GOAL_MS}`,
      values: bursts.map(({ p99Ms }) => p99Ms / BURST_GOAL_MS),
      goal: '<= 1',
    },
  ]);
  const all = { refused: 0, failed: 0 };
  for (const { refused, failed } of figures.over) {
    all.refused += refused;
    all.failed += failed;
  }
  console.log(
    `\nMedians: ${median(goodput(figures.usual)).toFixed(0)} durable beats a second at its best, ${median(goodput(figures.over)).toFixed(0)} under overload, where ${all.refused} were answered 503 and ${all.failed} were not answered.`,
  );
  await pool.end();

  async function burst(): Promise<PhaseResult> {
    const usual = { seconds: 2, ratePerSecond: USUAL_RATE };
    const phases = [usual, { seconds: 1, ratePerSecond: USUAL_RATE * BURST_TIMES }, usual];
    const [, result] = await load.arrive({ port, connections: BURST_CONNECTIONS, phases });
    if (!result) throw new Error('The load has no result.');
    return result;
  }
}

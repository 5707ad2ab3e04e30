// What senders of hostile bodies and sockets do to the role `api`: to the latency of honest beats meanwhile, and to its memory
// when they are gone.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { startHostileSenders } from '../test/support/start-hostile-senders.ts';
import type { Environment } from './environment.ts';
import { type PhaseResult, prepareBeats } from './load.ts';
import { median, printRatios } from './table.ts';

const ATTACKS = {
  singleBytes: 20,
  shortLines: 20,
  textBomb: 20,
  jsonBomb: 20,
  oversized: 20,
  halfHead: 300,
  noBody: 300,
};
const ROUNDS = 3;
/** Honest beats. */
const RATE = 200;
const CONNECTIONS = 64;
/** The garbage of a round is collected by then. */
const REST_SECONDS = 5;
const GOAL_MS = 300;
const MIB = 2 ** 20;

export async function measureHostileSenders(
  environment: Environment,
  { seconds }: { seconds: number },
): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  const server = await environment.startProcess('api-server.ts', []);
  const { rows } = await pool.query<{ path: string }>(
    `select '/ping/' || address as path from publish_addresses limit 1`,
  );
  const honest = async (of: number) => {
    const phases = [{ seconds: of, ratePerSecond: RATE }];
    const [result] = await load.arrive({ port: server.port, connections: CONNECTIONS, phases });
    if (!result) throw new Error('The load has no result.');
    return result;
  };
  const alone = await honest(seconds);
  const memory = [await settledMemory(server.memory, honest)];
  const rounds: PhaseResult[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const hostile = startHostileSenders({ port: server.port, path: rows[0]?.path ?? '', attacks: ATTACKS });
    rounds.push(await honest(seconds));
    const gone = once(hostile, 'exit');
    hostile.kill();
    await gone;
    memory.push(await settledMemory(server.memory, honest));
  }
  const [before = 0, first = 0, second = 0, third = 0] = memory;
  printRatios('Hostile bodies and sockets', [
    { name: 'memory of the api after a round / before', values: [first / before], goal: '<= 1.5' },
    { name: '… after the third round / after the second', values: [third / second], goal: '<= 1.05' },
    {
      name: `99th percentile of honest beats meanwhile, ms / ${GOAL_MS}`,
      values: rounds.map(({ p99Ms }) => p99Ms / GOAL_MS),
      goal: '<= 1',
    },
  ]);
  const refused = rounds.map((round) => round.refused + round.failed).join(', ');
  console.log(
    `\nMemory in MiB: ${memory.map((bytes) => (bytes / MIB).toFixed(0)).join(', ')}. 99 % of the honest beats within ${median(rounds.map(({ p99Ms }) => p99Ms)).toFixed(0)} ms, alone ${alone.p99Ms.toFixed(0)} ms; not answered with OK in each round: ${refused}.`,
  );
  await pool.end();
}

/** After honest beats alone for some seconds. */
async function settledMemory(
  read: () => Promise<number>,
  honest: (seconds: number) => Promise<unknown>,
): Promise<number> {
  await honest(REST_SECONDS);
  const samples: number[] = [];
  for (let sample = 0; sample < 5; sample += 1) {
    samples.push(await read());
    await delay(100);
  }
  return median(samples);
}

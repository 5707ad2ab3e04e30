// As many durable beats as the server takes for a long time: the rate of the last part against that of the first one, and how
// far the memory of the server moves. Half an hour with `--soak`, else two minutes.
import { type Environment, VoidMeasurement } from './environment.ts';
import { prepareBeats } from './load.ts';
import { median, printRatios } from './table.ts';

const CONNECTIONS = 64;
/** The first one is not counted: the server warms up. */
const PARTS = 8;
const MAX_PART_SECONDS = 60;

export async function measureSoak(environment: Environment, { seconds }: { seconds: number }): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  const server = await environment.startProcess('ping-server.ts', ['batches']);
  const partSeconds = Math.min(MAX_PART_SECONDS, Math.ceil(seconds / PARTS));
  const rates: number[] = [];
  const memory: number[] = [];
  for (let spent = 0; spent < seconds + partSeconds; spent += partSeconds) {
    const run = load.run({ port: server.port, connections: CONNECTIONS, seconds: partSeconds });
    const during = await memoryDuring(run, server.memory);
    const { requestsPerSecond, failures } = await run;
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    if (spent === 0) continue;
    rates.push(requestsPerSecond);
    memory.push(during);
  }
  const ends = (values: readonly number[]) => [(values.at(-1) ?? 0) / (values[0] ?? 0)];
  printRatios(
    `${seconds} seconds of /ping in parts of ${partSeconds}, ${CONNECTIONS} connections (${load.program})`,
    [
      { name: 'rate of the last part / of the first', values: ends(rates), goal: '>= 0.97' },
      { name: 'memory of the server, last part / first', values: ends(memory), goal: '<= 1.05' },
    ],
  );
  const list = (values: readonly number[], unit: number) =>
    values.map((value) => (value / unit).toFixed(0)).join(', ');
  console.log(`\nBeats a second: ${list(rates, 1)}. Memory in MiB: ${list(memory, 2 ** 20)}.`);
  await pool.end();
}

/** The median while `work` runs: garbage comes and goes. */
async function memoryDuring(work: Promise<unknown>, read: () => Promise<number>): Promise<number> {
  const samples = [await read()];
  const timer = setInterval(() => void read().then((bytes) => samples.push(bytes)), 500);
  await work.finally(() => clearInterval(timer));
  return median(samples);
}

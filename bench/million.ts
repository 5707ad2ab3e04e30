// Durable beats a second with 1,000,000 monitors against 10,000, each in a Postgres of its own.
import { seedProject } from '../test/support/seed.ts';
import { openBenchFixture } from './bench-fixture.ts';
import { readCounters } from './counters.ts';
import { type Environment, startEnvironment, VoidMeasurement } from './environment.ts';
import { Load } from './load.ts';
import { seedManyMonitors } from './many-monitors.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const CONNECTIONS = 64;
const MANY = 1_000_000;
const FEW = 10_000;

interface Size {
  measure: (seconds: number) => Promise<number>;
  end: () => Promise<{ walBytes: number; processorUs: number; program: string }>;
}

export async function measureMillion(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const second = await startEnvironment();
  try {
    const many = await prepare(environment, MANY);
    const few = await prepare(second, FEW);
    const figures = { many: [] as number[], few: [] as number[] };
    for (const size of [few, many]) await size.measure(seconds);
    for (let pair = 0; pair < pairs; pair += 1) {
      figures.few.push(await few.measure(seconds));
      figures.many.push(await many.measure(seconds));
    }
    const [ends, { walBytes, processorUs }] = [await many.end(), await few.end()];
    const names = [MANY, FEW].map((count) => count.toLocaleString('en'));
    printRatios(`/ping by the number of monitors, ${CONNECTIONS} connections (${ends.program})`, [
      {
        name: `${names[0]} monitors / ${names[1]}`,
        values: ratiosTo(figures.few, figures.many),
        goal: '>= 0.9',
      },
    ]);
    const perSecond = (values: number[]) => Math.round(median(values)).toLocaleString('en');
    console.log(
      `\nMedians: ${perSecond(figures.many)} durable beats a second at ${names[0]} monitors, ${perSecond(figures.few)} at ${names[1]}. Bytes of write-ahead log a beat, with the first change of each page after a checkpoint: ${ends.walBytes.toFixed(0)} and ${walBytes.toFixed(0)}. Processor time of the server for a beat: ${ends.processorUs.toFixed(0)} and ${processorUs.toFixed(0)} µs.`,
    );
  } finally {
    await second.close();
  }
}

async function prepare(environment: Environment, count: number): Promise<Size> {
  const { pool } = await openBenchFixture(environment.databaseUrl);
  const paths = await seedManyMonitors(pool, await seedProject(pool), count);
  const load = await Load.prepare(environment.folder, paths);
  await pool.query('checkpoint');
  const server = await environment.startProcess('ping-server.ts', ['batches']);
  const { walBytes: walBefore } = await readCounters(pool);
  const processorBefore = await server.processorMs();
  let beats = 0;
  return {
    async measure(seconds) {
      const { port } = server;
      const result = await load.run({ port, connections: CONNECTIONS, seconds });
      if (result.failures > 0) throw new VoidMeasurement(`${result.failures} beats were refused.`);
      beats += result.answers;
      return result.requestsPerSecond;
    },
    async end() {
      const walBytes = ((await readCounters(pool)).walBytes - walBefore) / beats;
      const processorUs = (((await server.processorMs()) - processorBefore) * 1_000) / beats;
      await server.end();
      await pool.end();
      return { walBytes, processorUs, program: load.program };
    },
  };
}

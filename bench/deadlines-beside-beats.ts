// 10,000 deadlines at one instant while an api takes all the beats that it can, against the same without beats.
import { seedEndpoint, seedProject } from '../test/support/seed.ts';
import { drain, makeSweep } from '../test/support/sweeper-fixture.ts';
import { type BenchFixture, openBenchFixture } from './bench-fixture.ts';
import { DEADLINES, seedDueMonitors } from './deadlines.ts';
import type { Environment } from './environment.ts';
import { MONITORS, prepareBeats } from './load.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const GOAL_MS = 800;
const CONNECTIONS = 64;
/** Before the sweep the api must be at its best. */
const WARM_SECONDS = 1;

export async function measureDeadlinesBesideBeats(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const fixture = await openBenchFixture(environment.databaseUrl);
  // Silence of these monitors is no matter for the sweep.
  const hourly = { configuration: { interval_seconds: 3_600 } };
  const { pool, load } = await prepareBeats(environment, MONITORS, hourly);
  const port = await environment.startServer('ping-server.ts', ['batches']);
  const beat = (of: number) => load.run({ port, connections: CONNECTIONS, seconds: of });
  await beat(WARM_SECONDS);
  await sweepProject(fixture);
  const figures = { quiet: [] as number[], beside: [] as number[], beats: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.quiet.push(await sweepProject(fixture));
    let beats: ReturnType<typeof beat> | undefined;
    const beside = await sweepProject(fixture, async () => {
      beats = beat(WARM_SECONDS + seconds);
      await new Promise((resolve) => setTimeout(resolve, WARM_SECONDS * 1_000));
    });
    figures.beside.push(beside);
    figures.beats.push((await beats)?.requestsPerSecond ?? Number.NaN);
  }
  printRatios(`${DEADLINES.toLocaleString('en')} deadlines at one instant beside beats (${load.program})`, [
    {
      name: `until all is committed, ms / ${GOAL_MS}`,
      values: figures.beside.map((ms) => ms / GOAL_MS),
      goal: '<= 1',
    },
    {
      name: 'beside beats / without beats',
      values: ratiosTo(figures.quiet, figures.beside),
      goal: '<= 2',
    },
  ]);
  console.log(
    `\nMedians: ${median(figures.beside).toFixed(0)} ms beside ${median(figures.beats).toFixed(0)} beats a second, ${median(figures.quiet).toFixed(0)} ms without beats.`,
  );
  await pool.end();
  await fixture.pool.end();
}

/** In ms. Each time in a project of its own. */
async function sweepProject(fixture: BenchFixture, prepare = async () => {}): Promise<number> {
  const { pool } = fixture;
  const project = await seedProject(pool);
  await seedEndpoint({ ...fixture, project }, 'http://127.0.0.1:9/', true);
  await seedDueMonitors(pool, project);
  const sweep = makeSweep(pool);
  await prepare();
  const startedAt = performance.now();
  await drain(sweep);
  const wallMs = performance.now() - startedAt;
  const { rows } = await pool.query<{ opened: number }>(
    'select count(*) as opened from deliveries where project_id = $1',
    [project.projectId],
  );
  if (rows[0]?.opened !== DEADLINES) throw new Error(`The sweep wrote ${rows[0]?.opened} deliveries.`);
  return wallMs;
}

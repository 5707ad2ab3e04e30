// The replay of a draft over 100,000 observations of 30 days against COPY of the same rows, by processor time and by the clock.
import { randomUUID } from 'node:crypto';
import { createPartitions, OBSERVATIONS } from '../src/store/postgres/partitions.ts';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { daysAgo, makePartition, setLastSequences } from '../test/support/past-beats.ts';
import { seedCredential, seedMonitors, seedProject } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';
import { processorTimesOf } from './processor-time.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const OBSERVED = 100_000;
const DAYS = 29;
/** The pages of the history have beats of other monitors too. */
const MONITORS = 4;
/** One of a thousand beats violates the proposal, and none the present rule. */
const PRESENT = { minimum: 0, maximumAbsoluteDelta: 1_000_000 };
const PROPOSED = { minimum: 1, maximumAbsoluteDelta: 1_000_000 };

interface Run {
  /** Milliseconds. */
  duration: number;
  /** Milliseconds of processor time of all processes. */
  processor: number;
}

export async function measureReplay(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const { databaseUrl } = environment;
  const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 3_600_000 });
  const { tokens, projectId, monitorId, monitorKey } = await seedHistory(pool);
  const server = await environment.startProcess('api-server.ts', []);
  const call = async (path: string, token: string, body: object) => {
    const answer = await fetch(
      `http://127.0.0.1:${server.port}/v1/monitors/${monitorId}/rule-workbench/drafts${path}`,
      {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'idempotency-key': randomUUID(),
        },
        body: JSON.stringify(body),
      },
    );
    if (!answer.ok) throw new Error(`The call was refused: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { id: string; window: { observationCount: number } };
  };
  const proposal = { measurementKey: 'rows', definition: PROPOSED };
  const { id: draftId } = await call('', tokens.manage, { proposal });
  const since = new Date(daysAgo(DAYS)).toISOString();
  const replay = async () => {
    const { window } = await call('/replay', tokens.read, { draftId, since });
    if (window.observationCount !== OBSERVED) throw new Error(`It read ${window.observationCount} rows.`);
  };
  const copy = async () => {
    const { rowCount } = await pool.query(
      `copy (select * from observations where project_id = '${projectId}' and monitor_key = '${monitorKey}'
         order by sequence) to program 'cat > /dev/null'`,
    );
    if (rowCount !== OBSERVED) throw new Error(`COPY read ${rowCount} rows.`);
  };
  const measure = async (work: () => Promise<void>): Promise<Run> => {
    const startedAt = performance.now();
    const { own, postgres, others } = await processorTimesOf(work);
    return { duration: performance.now() - startedAt, processor: own + postgres + others };
  };
  await replay();
  await copy();
  const figures = { replay: [] as Run[], copy: [] as Run[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.copy.push(await measure(copy));
    figures.replay.push(await measure(replay));
  }
  const ratios = (figure: (run: Run) => number) =>
    ratiosTo(figures.copy.map(figure), figures.replay.map(figure));
  printRatios(`Replay of ${OBSERVED.toLocaleString('en')} observations`, [
    { name: 'time of a replay / COPY', values: ratios(({ duration }) => duration) },
    { name: 'processor time of a replay / COPY', values: ratios(({ processor }) => processor) },
  ]);
  const describe = (runs: readonly Run[]) =>
    `${median(runs.map(({ duration }) => duration)).toFixed(0)} ms, of processors ${median(runs.map(({ processor }) => processor)).toFixed(0)}`;
  console.log(`\nMedians: a replay takes ${describe(figures.replay)}; COPY ${describe(figures.copy)}.`);
  await server.end();
  await pool.end();
}

/** Beats in the order of time, as they come. Returns credentials, and the monitor whose rule is proposed. */
async function seedHistory(pool: Pool) {
  const project = await seedProject(pool);
  const { projectId } = project;
  const configuration = { measurements: { rows: PRESENT } };
  const [monitor] = await seedMonitors(pool, project, MONITORS, { configuration });
  if (!monitor) throw new Error('No monitor was made.');
  const connection = await pool.connect();
  await createPartitions(connection, OBSERVATIONS);
  connection.release();
  const aDay = Math.ceil(OBSERVED / DAYS);
  for (let day = 0; day < DAYS; day += 1) {
    const fromMs = daysAgo(DAYS - day);
    await makePartition(pool, fromMs);
    await pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
       select project_id, monitor_key, n, to_timestamp($1 / 1000.0) + (n - $2) * interval '1 day' / $4, 'success',
         jsonb_build_object('rows', n % 1000, 'files', n, 'bytes', n * 1024)
       from generate_series($2::bigint, $3::bigint) n, monitors order by n`,
      [fromMs, day * aDay + 1, Math.min((day + 1) * aDay, OBSERVED), aDay],
    );
  }
  await setLastSequences(pool, projectId);
  await pool.query('vacuum analyze observations');
  const { monitorId, monitorKey } = monitor;
  const [read, manage] = [
    await seedCredential(pool, { projectId, preset: 'read' }),
    await seedCredential(pool, { projectId, preset: 'manage' }),
  ];
  return { tokens: { read, manage }, projectId, monitorId, monitorKey };
}

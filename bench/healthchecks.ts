// Durable beats a second against Healthchecks (https://github.com/healthchecks/healthchecks) on the same machine and the
// same Postgres. HEALTHCHECKS_FOLDER names its checkout, with its requirements, psycopg and uwsgi in `.venv`.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { findFreePort } from '../src/dev/processes/free-port.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { Load, MONITORS, prepareBeats } from './load.ts';
import { outputOf } from './programs.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const CONNECTIONS = 64;
const DATABASE = 'healthchecks';
/** Its Docker image starts as many. */
const PROCESSES = 4;

const SEED = `
import uuid
from django.contrib.auth.models import User
from hc.accounts.models import Project
from hc.api.models import Check
user = User.objects.create(username="bench", email="bench@example.org")
project = Project.objects.create(owner=user)
checks = Check.objects.bulk_create([Check(project=project, name=str(i)) for i in range(${MONITORS})])
print("\\n".join("code " + str(check.code) for check in checks))
`;

export async function measureHealthchecks(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const folder = process.env.HEALTHCHECKS_FOLDER;
  if (!folder) {
    console.log('\nhealthchecks: left out, HEALTHCHECKS_FOLDER does not name a checkout of Healthchecks.');
    return;
  }
  const { pool, load } = await prepareBeats(environment);
  await pool.query(`create database ${DATABASE}`);
  const port = await environment.startServer('ping-server.ts', ['batches']);
  const other = await startHealthchecks(environment, folder);
  const run = async (of: Load, to: number) => {
    const result = await of.run({ port: to, connections: CONNECTIONS, seconds });
    if (result.failures > 0) throw new VoidMeasurement(`${result.failures} beats were refused.`);
    return result.requestsPerSecond;
  };
  const figures = { ours: [] as number[], theirs: [] as number[] };
  try {
    await run(other.load, other.port);
    await run(load, port);
    for (let pair = 0; pair < pairs; pair += 1) {
      figures.theirs.push(await run(other.load, other.port));
      figures.ours.push(await run(load, port));
    }
  } finally {
    await other.end();
  }
  printRatios(`/ping against Healthchecks, ${CONNECTIONS} connections (${load.program})`, [
    { name: 'durable / Healthchecks', values: ratiosTo(figures.theirs, figures.ours), goal: '>= 60' },
  ]);
  console.log(
    `\nMedians: ${median(figures.ours).toFixed(0)} durable beats a second, ${median(figures.theirs).toFixed(0)} of Healthchecks (uwsgi with ${PROCESSES} processes).`,
  );
  await pool.end();
}

/** With the settings of its Docker image, connections that are kept, and no log of requests. */
async function startHealthchecks(environment: Environment, folder: string) {
  const { hostname, port: databasePort, username, password } = new URL(environment.databaseUrl);
  const env = {
    PATH: process.env.PATH,
    SECRET_KEY: 'bench',
    DEBUG: 'False',
    ALLOWED_HOSTS: '*',
    DB: 'postgres',
    DB_HOST: hostname,
    DB_PORT: databasePort,
    DB_NAME: DATABASE,
    DB_USER: username,
    DB_PASSWORD: password,
    DB_CONN_MAX_AGE: '3600',
  };
  const python = join(folder, '.venv/bin/python');
  await outputOf(python, ['manage.py', 'migrate'], { cwd: folder, env });
  const seeded = await outputOf(python, ['manage.py', 'shell', '-c', SEED], { cwd: folder, env });
  const paths = [...seeded.matchAll(/^code (\S+)$/gm)].map(([, code]) => `/ping/${code}`);
  const port = await findFreePort();
  const child = spawn(
    join(folder, '.venv/bin/uwsgi'),
    [
      ...['--strict', '--master', '--die-on-term', '--thunder-lock', '--enable-threads', '--threads', '1'],
      ...['--processes', String(PROCESSES), '--http-socket', `127.0.0.1:${port}`, '--max-fd', '10000'],
      ...['--buffer-size', '32768', '--post-buffering', '16192', '--disable-logging'],
      ...['--chdir', folder, '--module', 'hc.wsgi:application', '--virtualenv', join(folder, '.venv')],
    ],
    { cwd: folder, env, stdio: 'ignore' },
  );
  const answers = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}${paths[0]}`).catch(() => undefined);
    return answer?.status === 200;
  };
  await waitFor(answers, { what: 'Healthchecks answers' }).catch(async (error: unknown) => {
    await endServer(child);
    throw error;
  });
  return {
    port,
    load: await Load.prepare(environment.folder, paths, 'healthchecks'),
    end: () => endServer(child),
  };
}

async function endServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await exit;
}

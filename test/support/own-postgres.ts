// A Postgres server of a test's own, which stops and starts at will. `npm run dev` uses it by DATABASE_URL and leaves it alone.
import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findPostgresBinaries } from '../../src/dev/postgres/postgres-binaries.ts';
import {
  POSTGRES_SUPERUSER,
  postgresUrl,
  preparePostgres,
  type ServerCommand,
  waitForPostgres,
} from '../../src/dev/postgres/postgres-server.ts';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { RUN_MARK_VARIABLE, runMark } from '../../src/dev/processes/run-processes.ts';
import { startWatchdog } from '../../src/dev/processes/watchdog.ts';
import { type RunningServer, runServer } from './run-server.ts';

const DATABASE = 'beatkeeper';
const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 30_000;

export class OwnPostgres {
  readonly url: string;
  /** Copied while it is stopped, it is a snapshot of the volume. */
  readonly dataFolder: string;
  readonly #command: ServerCommand;
  readonly #env: NodeJS.ProcessEnv;
  readonly #end: () => Promise<void>;
  #server: RunningServer | undefined;

  private constructor(command: ServerCommand, env: NodeJS.ProcessEnv, url: string, end: () => Promise<void>) {
    this.#command = command;
    this.#env = env;
    this.url = url;
    this.dataFolder = String(command.options.cwd);
    this.#end = end;
  }

  /** Starts a server with an empty database. One that is not durable writes no images of pages into its log. */
  static async create({ durable = true } = {}): Promise<OwnPostgres> {
    const binaries = await findPostgresBinaries();
    if (binaries === undefined) throw new Error('npm has no Postgres for this machine.');
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'beatkeeper-test-')));
    await chmod(folder, 0o711); // if we are root, the server runs as another user, who must reach its data
    const runId = randomUUID();
    const watchdog = startWatchdog(folder, runId);
    const [port, password] = [await findFreePort(), randomBytes(16).toString('hex')];
    const env = { PATH: process.env.PATH, [RUN_MARK_VARIABLE]: runMark(folder, runId) };
    const dataFolder = join(folder, 'data');
    const command = await preparePostgres({ binaries, dataFolder, port, password, durable, env });
    const urlOf = (database: string) => postgresUrl(port, POSTGRES_SUPERUSER, password, database);
    const server = new OwnPostgres(command, env, urlOf(DATABASE), async () => {
      await watchdog.end();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    });
    await server.start(urlOf('postgres'));
    const admin = new pg.Client({ connectionString: urlOf('postgres') });
    await admin.connect();
    await admin.query(`create database ${DATABASE}`);
    await admin.end();
    return server;
  }

  /** Resolves when it answers. */
  async start(url = this.url): Promise<void> {
    const server = runServer(this.#command, this.#env);
    this.#server = server;
    await Promise.race([waitForPostgres(url, START_LIMIT_MS), server.failed]);
  }

  /** `fast` ends it in order, `immediate` as a crash does. */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    await this.#server?.end(mode === 'fast' ? 'SIGINT' : 'SIGQUIT', STOP_LIMIT_MS);
    this.#server = undefined;
  }

  /** Ends it and removes its data. */
  async remove(): Promise<void> {
    await this.stop();
    await this.#end();
  }
}

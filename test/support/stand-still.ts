// Stops the event loop of this process, as a busy or suspended machine does, while the database goes on.
import { execFileSync } from 'node:child_process';

const WAIT = `
  import { setTimeout } from 'node:timers/promises';
  import pg from 'pg';
  const [databaseUrl, ms] = process.argv.slice(1);
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await setTimeout(Number(ms));
  const isBusy = async () => {
    const { rowCount } = await client.query(
      "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'",
    );
    return rowCount > 0;
  };
  while (await isBusy()) await setTimeout(20);
  await client.end();
`;

/**
 * Blocks the event loop for at least `ms`, and until the database has answered everything: the answers then wait in the
 * sockets of this process.
 */
export function standStill(databaseUrl: string, ms: number): void {
  execFileSync(process.execPath, ['--input-type=module', '--eval', WAIT, databaseUrl, String(ms)]);
}

// A database that is spread over the machines of a Citus cluster: it has one part of the same name on each of them, and a
// clone of it is a clone of each part.
import pg from 'pg';

/** The same machine, another database. */
export function databaseUrlOf(url: string, name: string): string {
  const other = new URL(url);
  other.pathname = `/${name}`;
  return other.href;
}

export async function queryAs<T extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values?: unknown[],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<T>(sql, values)).rows;
  } finally {
    await client.end();
  }
}

/** Runs a statement on each of these servers, one after the other. */
export async function runOnAll(urls: readonly string[], sql: string): Promise<void> {
  for (const url of urls) await queryAs(url, sql);
}

/** The addresses of the cluster's workers, with the role and the password of the coordinator's. */
export async function readWorkers(adminUrl: string): Promise<string[]> {
  const rows = await queryAs<{ nodename: string; nodeport: number }>(
    adminUrl,
    "select nodename, nodeport from pg_dist_node where groupid <> 0 and noderole = 'primary' order by nodeid",
  );
  if (rows.length === 0) throw new Error('The cluster of DISTRIBUTED_DATABASE_URL has no workers.');
  return rows.map(({ nodename, nodeport }) => {
    const worker = new URL(adminUrl);
    worker.hostname = nodename;
    worker.port = String(nodeport);
    return worker.href;
  });
}

/** A migration of the database makes few shards: each test file has a database of its own. */
export async function limitShards(adminUrl: string, name: string): Promise<void> {
  await queryAs(adminUrl, `alter database ${name} set citus.shard_count = 4`);
}

/** Ends what Citus itself keeps connected to a database: Postgres clones one that nobody uses. */
export async function closeTemplate(adminUrl: string, name: string): Promise<void> {
  await queryAs(adminUrl, `alter database ${name} allow_connections false`);
  await queryAs(adminUrl, 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [
    name,
  ]);
}

// vitest globalSetup of `npm run test:distributed`: makes the template database on the Citus cluster whose coordinator
// `DISTRIBUTED_DATABASE_URL` names. The role of the address must be a superuser on all of its machines.
import { randomBytes } from 'node:crypto';
import type { TestProject } from 'vitest/node';
import { useEngine } from '../../src/store/postgres/engine.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import {
  closeTemplate,
  databaseUrlOf,
  limitShards,
  queryAs,
  readWorkers,
  runOnAll,
} from './distributed-database.ts';

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const adminUrl = process.env.DISTRIBUTED_DATABASE_URL;
  if (!adminUrl)
    throw new Error(
      'Set DISTRIBUTED_DATABASE_URL to the coordinator of a Citus cluster with its workers, as a superuser (CONTRIBUTING.md).',
    );
  useEngine('citus');
  const workers = await readWorkers(adminUrl);
  const prefix = `bk_${randomBytes(5).toString('hex')}`;
  const drop = () => dropDatabases([adminUrl, ...workers], prefix);
  try {
    await makeTemplates(adminUrl, workers, prefix);
  } catch (error) {
    await drop();
    throw error;
  }
  project.provide('postgresAdminUrl', adminUrl);
  project.provide('postgresWorkerUrls', workers);
  project.provide('postgresPrefix', prefix);
  return drop;
}

/** `<prefix>_empty` has no schema, `<prefix>_template` is migrated. */
async function makeTemplates(adminUrl: string, workers: readonly string[], prefix: string): Promise<void> {
  const nodes = [adminUrl, ...workers];
  const [empty, template] = [`${prefix}_empty`, `${prefix}_template`];
  await runOnAll(nodes, `create database ${empty}`);
  await addNodes(nodes.map((url) => databaseUrlOf(url, empty)));
  for (const url of nodes) await closeTemplate(url, empty);
  await runOnAll(nodes, `create database ${template} template ${empty}`);
  await limitShards(adminUrl, template);
  await migrate({ databaseUrl: databaseUrlOf(adminUrl, template) });
  for (const url of nodes) await closeTemplate(url, template);
}

async function addNodes([coordinator = '', ...workers]: readonly string[]): Promise<void> {
  await runOnAll([coordinator, ...workers], 'create extension citus');
  const { hostname, port } = new URL(coordinator);
  await queryAs(coordinator, 'select citus_set_coordinator_host($1, $2)', [hostname, Number(port)]);
  for (const url of workers) {
    const worker = new URL(url);
    await queryAs(coordinator, 'select citus_add_node($1, $2)', [worker.hostname, Number(worker.port)]);
  }
}

async function dropDatabases(nodes: readonly string[], prefix: string): Promise<void> {
  for (const url of nodes) {
    const made = await queryAs<{ datname: string }>(
      url,
      `select datname from pg_database where datname like '${prefix}\\_%'`,
    );
    for (const { datname } of made) await queryAs(url, `drop database if exists ${datname} with (force)`);
  }
}

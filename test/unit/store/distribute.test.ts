// Each table of the migrations has its place on a cluster (docs/adr/0012-past-one-machine.md).
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import {
  COORDINATOR_TABLES,
  DISTRIBUTED_TABLES,
  REFERENCE_TABLES,
} from '../../../src/store/postgres/distribute.ts';

const MIGRATIONS = new URL('../../../src/store/migrations/', import.meta.url);

it('every table that the migrations make has one place on a cluster, and no other table has one', () => {
  const made = readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .flatMap((name) => [
      ...readFileSync(new URL(name, MIGRATIONS), 'utf8').matchAll(/^create table (\w+)(?! partition of)\b/gm),
    ])
    .map(([, table]) => table);
  // Not by a migration: what counts them.
  const tables = ['schema_migrations', ...made];
  const placed = [...REFERENCE_TABLES, ...Object.keys(DISTRIBUTED_TABLES), ...COORDINATOR_TABLES];
  expect(placed.toSorted()).toEqual(tables.toSorted());
});

// Which engine the database of this process is. `citus` spreads the tables of projects over machines (docs/adr/0012):
// a statement that locks rows, or writes several tables, must then name the projects of one shard.

import type { Bind } from './columns.ts';

export const ENGINES = ['postgres', 'citus'] as const;
export type Engine = (typeof ENGINES)[number];

let engine: Engine = 'postgres';

/** Call it once, when the process starts: texts of statements are made with their first use. */
export function useEngine(used: Engine): void {
  engine = used;
}

export function isDistributed(): boolean {
  return engine === 'citus';
}

/**
 * SQL: that the rows of `alias` belong to the projects of `rows`, which are all in one shard. Citus runs a statement in
 * which each table is bound to one shard as it is, with its locks and its CTEs. Empty on Postgres.
 */
export function inShard<Input>(
  alias: string,
  bind: Bind<Input>,
  rows: (input: Input) => readonly { projectId: string }[],
): string {
  if (!isDistributed()) return '';
  return ofProjects(
    alias,
    bind((input) => [...new Set(rows(input).map(({ projectId }) => projectId))]),
  );
}

/** As `inShard`, of the projects of a parameter that the statement has anyhow, such as `$1`. */
export function ofProjects(alias: string, parameter: string): string {
  return isDistributed() ? ` and ${alias}.project_id = any(${parameter}::uuid[])` : '';
}

/** As `inShard`, of the one project of a parameter: for statements that join, where each table needs it. */
export function ofProject(alias: string, parameter: string): string {
  return isDistributed() ? ` and ${alias}.project_id = ${parameter}` : '';
}

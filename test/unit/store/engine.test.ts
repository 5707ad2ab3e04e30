// What the engine of the database adds to statements.
import { afterEach, expect, it } from 'vitest';
import { column, sql, statement } from '../../../src/store/postgres/columns.ts';
import { inShard, useEngine } from '../../../src/store/postgres/engine.ts';

afterEach(() => useEngine('postgres'));

interface Ref {
  projectId: string;
}

const REF = { projectId: column.plain<string>('project_id', 'uuid') };

const makeStatement = () =>
  statement<readonly Ref[]>(
    'find',
    (bind) =>
      `select from t where ${sql.unnest(REF, bind, (refs) => refs)}${inShard('t', bind, (refs) => refs)}`,
  );
const refs = [{ projectId: 'a' }, { projectId: 'b' }, { projectId: 'a' }];

it('a statement for Postgres has no predicate and no parameter for shards', () => {
  const { text, values } = makeStatement()(refs);
  expect(text).not.toContain('any(');
  expect(values).toHaveLength(1);
});

it('a statement for Citus names each project of its rows once', () => {
  useEngine('citus');
  const { text, values } = makeStatement()(refs);
  expect(text).toContain('and t.project_id = any($2::uuid[])');
  expect(values[1]).toEqual(['a', 'b']);
});

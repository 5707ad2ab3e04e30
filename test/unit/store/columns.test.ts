// Statements that follow from a table of columns: their text, the values of their parameters, and the rows they return.
import { describe, expect, it } from 'vitest';
import {
  type Bind,
  type Columns,
  column,
  rowReader,
  sql,
  statement,
} from '../../../src/store/postgres/columns.ts';

interface Job {
  id: number;
  name?: string;
  plan: { dueMs?: number; tags: string[] };
  pause?: { fromMs: number; reason?: string };
}

const JOB: Columns<Job> = {
  id: column.plain('id', 'bigint'),
  name: column.line('name'),
  plan: { dueMs: column.moment('due_at'), tags: column.json('tags', () => []) },
  pause: column.optional({ fromMs: column.moment('paused_at'), reason: column.line('reason') }),
};

const full: Job = { id: 1, name: 'a', plan: { dueMs: 5, tags: ['x'] }, pause: { fromMs: 7, reason: 'r' } };
const bare: Job = { id: 2, plan: { tags: [] } };

describe('a statement over a table of columns', () => {
  it('the parameters of a statement are numbered in the order of the text, each with its own value', () => {
    const insert = statement(
      'insert-jobs',
      (bind: Bind<{ jobs: Job[]; owner: string }>) => `insert into jobs (owner, ${sql.names(JOB)})
        select ${bind(({ owner }) => owner)}, ${sql.values(JOB)} from ${sql.unnest(JOB, bind, ({ jobs }) => jobs)}`,
    );
    const { name, text, values } = insert({ jobs: [full, bare], owner: 'me' });
    expect(name).toBe('insert-jobs');
    expect(text.replaceAll(/\s+/g, ' ')).toBe(
      'insert into jobs (owner, id, name, due_at, tags, paused_at, reason) ' +
        'select $1, v.id, v.name, to_timestamp(v.due_at / 1000.0), v.tags, to_timestamp(v.paused_at / 1000.0), v.reason ' +
        'from unnest($2::bigint[], string_to_array($3, chr(30), chr(31)), $4::bigint[], $5::jsonb[], $6::bigint[], ' +
        'string_to_array($7, chr(30), chr(31))) as v (id, name, due_at, tags, paused_at, reason)',
    );
    expect(values).toEqual([
      'me',
      '{1,2}',
      'a\u001e\u001f',
      '{5,NULL}',
      ['["x"]', '[]'],
      '{7,NULL}',
      'r\u001e\u001f',
    ]);
  });

  it('one object becomes one parameter per column, with NULL for absent fields', () => {
    const update = statement(
      'update-job',
      (bind: Bind<Job>) =>
        `update jobs set (${sql.names(JOB)}) = row (${sql.parameters(JOB, bind, (job) => job)})`,
    );
    expect(update(full).text).toBe(
      'update jobs set (id, name, due_at, tags, paused_at, reason) = ' +
        'row ($1, $2, to_timestamp($3 / 1000.0), $4, to_timestamp($5 / 1000.0), $6)',
    );
    expect(update(full).values).toEqual([1, 'a', 5, '["x"]', 7, 'r']);
    expect(update(bare).values).toEqual([2, undefined, undefined, '[]', undefined, undefined]);
  });

  it('many objects become one JSON parameter when the plan must not depend on their number', () => {
    const update = statement(
      'update-jobs',
      (bind: Bind<Job[]>) =>
        `set ${sql.assignments({ plan: JOB.plan })} from ${sql.recordset(JOB, bind, (jobs) => jobs)}`,
    );
    const { text, values } = update([full]);
    expect(text).toBe(
      'set due_at = to_timestamp(v.due_at / 1000.0), tags = v.tags from jsonb_to_recordset($1::jsonb) ' +
        'as v (id bigint, name text, due_at bigint, tags jsonb, paused_at bigint, reason text)',
    );
    expect(values.map((value) => JSON.parse(String(value)))).toEqual([
      [{ id: 1, name: 'a', due_at: 5, tags: ['x'], paused_at: 7, reason: 'r' }],
    ]);
  });
});

describe('a row that is read', () => {
  it('a row becomes an object with the form of its columns, without NULLs', () => {
    const toJob = rowReader(JOB);
    const row = { id: 1, name: 'a', due_at: 5, tags: ['x'], paused_at: 7, reason: 'r', other: 3 };
    expect(toJob(row)).toEqual(full);
    const nulls = { ...row, id: 2, name: null, due_at: null, tags: null, paused_at: null };
    expect(toJob(nulls)).toStrictEqual({
      id: 2,
      name: undefined,
      plan: { dueMs: undefined, tags: [] },
      pause: undefined,
    });
  });

  it('a moment of the clock is read without its microseconds', () => {
    const LISTED: Columns<{ createdMs: number; isOld: boolean }> = {
      createdMs: column.clockMoment('created_at'),
      isOld: column.computed('is_old', 'j.version > 1'),
    };
    expect(sql.select(LISTED, 'j')).toBe(
      'floor(extract(epoch from j.created_at) * 1000)::bigint as created_at, j.version > 1 as is_old',
    );
    expect(rowReader(LISTED)({ created_at: 1_999, is_old: true })).toEqual({ createdMs: 1_999, isOld: true });
  });
});

// What a sweeper that was away for days does with the rows that found no partition meanwhile.

import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import { convertDefault } from '../../src/store/postgres/default-partition.ts';
import {
  createPartitions,
  listPartitions,
  PARTITIONED_TABLES,
  type PartitionConnection,
  partitionAt,
  partitionOver,
} from '../../src/store/postgres/partitions.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import type { JobDeps } from '../../src/sweeper/upkeep/job.ts';
import { sweepPartitions } from '../../src/sweeper/upkeep/sweep-partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makePartition, waitOutDay } from '../support/past-beats.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const DAY_MS = 86_400_000;
const [first] = PARTITIONED_TABLES;
if (!first) throw new Error('no table');
const observations = first;

let fixture: ProjectFixture;
beforeEach(async () => {
  await waitOutDay();
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

const makeDeps = (): JobDeps => ({ pool: fixture.pool, slowPool: fixture.pool, ...makeParts() });
const dayAt = (offset: number) => partitionAt(observations, Date.now(), offset);
const namesOf = (offsets: readonly number[]) => offsets.map((offset) => dayAt(offset).name);
/** The partition from the day `from` to the day before `to`. */
const daysOver = (from: number, to: number) =>
  partitionOver(observations, dayAt(from).fromMs, dayAt(to).fromMs);

const makeDays = async ({ fromMs, toMs }: ReturnType<typeof dayAt>) =>
  await makePartition(fixture.pool, fromMs, toMs);

const ALL_DAYS = [0, 1, 2, 3, 4, 5, 6, 7];
/** What seven days without a sweeper become, with the days ahead. */
const missedWeek = () => daysOver(-6, 8).name;

async function dropPartitionsOf(offsets: readonly number[]): Promise<void> {
  for (const name of namesOf(offsets)) await fixture.pool.query(`drop table ${name}`);
}

/** Rows spread evenly over the time from the start of that day until now. */
async function insertRows(count: number, fromDay: number): Promise<void> {
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     select $1, $2, n, $3::timestamptz + (clock_timestamp() - $3) * (n - 1) / $4::integer, 'success'
     from generate_series(1, $4) n`,
    [fixture.project.projectId, newUuid(), toTime(dayAt(fromDay).fromMs), count],
  );
}
async function dropAllPartitions(): Promise<void> {
  const partitions = await onClient((db) => listPartitions(db, observations));
  for (const { name } of partitions) await fixture.pool.query(`drop table ${name}`);
}
async function insertBeat(atMs = Date.now()): Promise<void> {
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     values ($1, $2, 1, $3, 'success')`,
    [fixture.project.projectId, newUuid(), toTime(atMs)],
  );
}
async function countOf(table: string): Promise<number> {
  const { rows } = await fixture.pool.query<{ count: number }>(
    `select count(*)::integer as count from ${table}`,
  );
  return rows[0]?.count ?? -1;
}
async function attachedNames(): Promise<string[]> {
  const partitions = await onClient((db) => listPartitions(db, observations));
  return partitions.filter(({ isAttached }) => isAttached).map(({ name }) => name);
}
async function constraintsOfDefault(): Promise<number> {
  const { rowCount } = await fixture.pool.query(
    `select from pg_constraint where conrelid = 'observations_default'::regclass and contype = 'c'`,
  );
  return rowCount ?? 0;
}
async function onClient<Result>(work: (db: PartitionConnection) => Promise<Result>): Promise<Result> {
  const client = await fixture.pool.connect();
  try {
    return await work(client);
  } finally {
    client.release();
  }
}

describe('a sweeper that was away for seven days', () => {
  it('its first run makes one partition of the days that it missed, and those ahead, without moving a row', async () => {
    await dropPartitionsOf(ALL_DAYS);
    await insertRows(200_000, -6);
    const { rows: before } = await fixture.pool.query<{ file: number }>(
      `select pg_relation_filenode('observations_default') as file`,
    );
    await sweepPartitions(makeDeps());
    const week = missedWeek();
    expect(await attachedNames()).toEqual([week]);
    const { rows: after } = await fixture.pool.query<{ file: number }>(
      `select pg_relation_filenode('${week}') as file`,
    );
    expect(after).toEqual(before);
    expect(await countOf('observations')).toBe(200_000);
    await insertBeat();
    expect(await countOf(week)).toBe(200_001);
    expect(await countOf('observations_default')).toBe(0);
    expect(await constraintsOfDefault()).toBe(0);
    // A second run has nothing to do.
    await sweepPartitions(makeDeps());
    expect(await attachedNames()).toEqual([week]);
  });

  it('beats are written and readers see every row while the first run works', async () => {
    await dropPartitionsOf(ALL_DAYS);
    await insertRows(200_000, -6);
    let beats = 0;
    let isDone = false;
    const write = async () => {
      while (!isDone) {
        await insertBeat();
        beats += 1;
      }
    };
    const read = async () => {
      while (!isDone) {
        const least = 200_000 + beats;
        expect(await countOf('observations')).toBeGreaterThanOrEqual(least);
      }
    };
    const sweep = async () => {
      await waitFor(() => beats > 10, { what: 'some beats' });
      await retry(() => sweepPartitions(makeDeps()));
      const beatsThen = beats;
      await waitFor(() => beats > beatsThen + 10, { what: 'some more beats' });
      isDone = true;
    };
    const ended = await Promise.allSettled([write(), read(), sweep().finally(() => (isDone = true))]);
    expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(await countOf('observations')).toBe(200_000 + beats);
    expect(await countOf('observations_default')).toBe(0);
  });

  it('a run that dies after any of its statements refuses no beat of the next seven days, and the next run completes its work', async () => {
    let statements = 0;
    for (let last = 1; ; last += 1) {
      await dropAllPartitions();
      await insertRows(100, -6);
      const didEnd = await runUntil(last);
      await insertBeat(dayAt(7).toMs - 1);
      await sweepPartitions(makeDeps());
      expect(await countOf('observations_default')).toBe(0);
      expect(await constraintsOfDefault()).toBe(0);
      expect(await countOf('observations')).toBe(101);
      expect(await attachedNames()).toEqual([missedWeek()]);
      if (didEnd) break;
      statements = last;
    }
    expect(statements).toBeGreaterThan(15);
  });

  it('a run that dies refuses no beat of the next seven days either where some partitions ahead are missing', async () => {
    const reset = async () => {
      await dropAllPartitions();
      await fixture.pool.query('truncate observations');
      await makeDays(dayAt(1));
      await insertBeat();
    };
    let didEnd = false;
    for (let last = 1; !didEnd; last += 1) {
      await reset();
      didEnd = await runUntil(last);
      for (const offset of [0, 1, 2, 6]) await insertBeat(dayAt(offset).toMs - 1);
      await insertBeat(Date.now() + 7 * DAY_MS - 1_000);
    }
    await reset();
    // The days ahead, beside the rows of today; then today.
    await sweepPartitions(makeDeps()).catch(() => undefined);
    expect(await attachedNames()).toEqual(namesOf([1, 2, 3, 4, 5, 6, 7]));
    await sweepPartitions(makeDeps());
    expect(await attachedNames()).toEqual(namesOf(ALL_DAYS));
    expect(await countOf('observations_default')).toBe(0);
  });

  it('several sweepers that are back at the same time do the work once', async () => {
    for (let time = 0; time < 5; time += 1) {
      await dropAllPartitions();
      await insertRows(1_000, -6);
      await Promise.allSettled([1, 2, 3].map(() => sweepPartitions(makeDeps())));
      // Whoever met another one at its work may have failed, and tries again.
      await sweepPartitions(makeDeps());
      expect(await countOf('observations')).toBe(1_000);
      expect(await countOf('observations_default')).toBe(0);
      expect(await attachedNames()).toEqual([missedWeek()]);
    }
  });

  it('rows on both sides of a partition stay where they are, and the partitions ahead are created all the same', async () => {
    await dropPartitionsOf([0, 2, 3, 4, 5, 6, 7]);
    await insertBeat();
    await insertBeat(dayAt(40).fromMs);
    const failed = await sweepPartitions(makeDeps()).catch((error: AggregateError) => error.errors);
    expect(failed).toMatchObject([{ code: '23514' }]);
    expect(await attachedNames()).toEqual(namesOf([1, 2, 3, 4, 5, 6, 7]));
    expect(await countOf('observations')).toBe(2);
    expect(await constraintsOfDefault()).toBe(0);
  });
});

describe('a sweeper that was away for 30 days', () => {
  it('its first run drops what is 30 days old, and makes a partition of what it missed', async () => {
    await dropPartitionsOf(ALL_DAYS);
    for (const offset of [-36, -32, -31, -30, -29]) await makeDays(dayAt(offset));
    await insertRows(1_000, -28);
    await sweepPartitions(makeDeps());
    const kept = namesOf([-30, -29]);
    expect(await attachedNames()).toEqual([...kept, daysOver(-28, 8).name]);
    expect(await countOf('observations')).toBe(1_000);
  });

  it('a partition of several days is dropped as a whole 30 days after its last one', async () => {
    await makeDays(daysOver(-60, -50));
    await makeDays(daysOver(-50, -30));
    await makeDays(daysOver(-30, -10));
    await sweepPartitions(makeDeps());
    expect(await attachedNames()).toEqual([daysOver(-30, -10).name, ...namesOf(ALL_DAYS)]);
  });
});

describe('a default partition with very many rows', () => {
  it('no statement that reads the rows has the time limit of other jobs', async () => {
    await dropPartitionsOf(ALL_DAYS);
    await insertBeat();
    const options = { databaseUrl: fixture.databaseUrl, size: 2, applicationName: 'test' };
    const impatient = openPool({ ...options, statementTimeoutMs: 500 });
    const blocker = await fixture.pool.connect();
    await blocker.query('begin');
    await blocker.query('lock table observations_default in access exclusive mode');
    // What cannot be read is as good as a slow disk.
    const sweeping = sweepPartitions({ ...makeDeps(), pool: impatient }).catch(() => undefined);
    const isWaiting = async () => {
      const { rowCount } = await fixture.pool.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
           and query like '%min(received_at)%' and query_start < clock_timestamp() - interval '1 second'`,
      );
      return rowCount === 1;
    };
    // A closed connection has no lock.
    await waitFor(isWaiting, { what: 'a statement waits for longer than that' }).finally(() =>
      blocker.release(true),
    );
    await sweeping;
    expect(await attachedNames()).toContain(daysOver(0, 8).name);
    await impatient.end();
  });

  it('while it cannot become a partition none is attached, which would read its rows and hold beats off', async () => {
    await dropPartitionsOf(ALL_DAYS);
    await insertBeat();
    await fixture.pool.query(`create view ${daysOver(0, 8).name} as select 1`);
    await makeDays(dayAt(-40));
    const failed = await sweepPartitions(makeDeps()).catch((error: AggregateError) => error.errors);
    expect(failed).toMatchObject([{ message: expect.stringContaining(daysOver(0, 8).name) }]);
    expect(await attachedNames()).toEqual([]);
    await insertBeat();
    expect(await countOf('observations_default')).toBe(2);
  });
});

describe('creating and dropping', () => {
  it('a partition that cannot be created holds up no other, and nothing that is to be dropped', async () => {
    await dropPartitionsOf([1, 2, 3, 4]);
    await fixture.pool.query(`create view ${dayAt(2).name} as select 1`);
    await makeDays(dayAt(-40));
    const failed = await sweepPartitions(makeDeps()).catch((error: AggregateError) => error.errors);
    expect(failed).toMatchObject([{ message: expect.stringContaining(dayAt(2).name) }]);
    expect(await attachedNames()).toEqual(namesOf([0, 1, 3, 4, 5, 6, 7]));
  });

  it('a partition that cannot be dropped holds up no other, and nothing that is to be created', async () => {
    await dropPartitionsOf([5]);
    for (const offset of [-42, -41, -40]) await makeDays(dayAt(offset));
    await fixture.pool.query(`create view report as select * from ${dayAt(-41).name}`);
    const failed = await sweepPartitions(makeDeps()).catch((error: AggregateError) => error.errors);
    expect(failed).toMatchObject([{ message: expect.stringContaining(dayAt(-41).name) }]);
    expect(await attachedNames()).toEqual(namesOf(ALL_DAYS));
  });
});

/** A run of convert and create whose process dies before the statement after `last`; true when it did not come to that. */
async function runUntil(last: number): Promise<boolean> {
  const client = new pg.Client({ connectionString: fixture.databaseUrl });
  await client.connect();
  let left = last;
  const db = new Proxy(client, {
    get(target, property) {
      if (property !== 'query') return Reflect.get(target, property);
      return async (text: string, values: unknown[]) => {
        left -= 1;
        if (left < 0) throw new Error('The process is dead.');
        return await target.query(text, values);
      };
    },
  });
  const run = async () => {
    await convertDefault(db, observations);
    const { failures } = await createPartitions(db, observations);
    if (failures.length > 0) throw failures[0];
  };
  await run().catch(() => undefined);
  await client.end();
  return left >= 0;
}

async function retry(work: () => Promise<unknown>): Promise<void> {
  const succeeds = () =>
    work().then(
      () => true,
      () => false,
    );
  await waitFor(succeeds, { what: 'a run succeeds' });
}

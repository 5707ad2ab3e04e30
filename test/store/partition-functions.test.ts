// The functions of the schema that change partitions, called by somebody who wants to lose history or to have beats
// refused. Who may call them is in application-role.test.ts, what the sweeper does with them in test/sweeper.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { toTime } from '../../src/domain/timestamp.ts';
import {
  PARTITIONED_TABLES,
  type Partition,
  type PartitionedTable,
  partitionAt,
  partitionOver,
} from '../../src/store/postgres/partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const DAY_MS = 86_400_000;
const [observations] = PARTITIONED_TABLES;
if (!observations) throw new Error('no table');
/** The state of the rows forbids it. */
const REFUSED = { code: '55000' };

let fixture: ProjectFixture;
beforeEach(async () => {
  // A test asks for the partitions of one day: no test starts in the last minute of a day.
  const leftMs = () => DAY_MS - (Date.now() % DAY_MS);
  await waitFor(() => leftMs() > 60_000, { what: 'the day is over', timeoutMs: 90_000 });
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

const dayAt = (offset: number) => partitionAt(observations, Date.now(), offset);
const call = (name: string, { table }: PartitionedTable, partition: Partition) =>
  fixture.pool.query(`select ${name}($1, $2)`, [table, partition.name]);

async function exists(name: string): Promise<boolean> {
  const { rows } = await fixture.pool.query('select to_regclass($1) is not null as found', [name]);
  return rows[0].found;
}
async function dropDays(offsets: readonly number[]): Promise<void> {
  for (const offset of offsets) await fixture.pool.query(`drop table ${dayAt(offset).name}`);
}
async function insertBeat(atMs = Date.now()): Promise<void> {
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     values ($1, $2, 1, $3, 'success')`,
    [fixture.project.projectId, newUuid(), toTime(atMs)],
  );
}

describe.each(PARTITIONED_TABLES)('partitions of $table', (of) => {
  it('the database keeps their rows for as many days as the contract says', async () => {
    const { rows } = await fixture.pool.query('select kept_days($1) as days', [of.table]);
    expect(rows).toEqual([{ days: of.keepDays }]);
  });

  it('the database drops and detaches no partition whose rows are still kept, and each one whose time is over', async () => {
    const now = partitionAt(of, Date.now());
    const lastMs = Date.now() - of.keepDays * DAY_MS;
    const kept = partitionAt(of, lastMs);
    const over = partitionAt(of, lastMs, -1);
    const toNow = partitionOver(of, partitionAt(of, lastMs, -9).fromMs, partitionAt(of, lastMs, -7).toMs);
    for (const partition of [kept, over, toNow]) await call('add_partition', of, partition);
    for (const partition of [now, kept, partitionAt(of, Date.now(), of.ahead)]) {
      await expect(call('drop_partition', of, partition)).rejects.toMatchObject(REFUSED);
      await expect(call('detach_partition', of, partition)).rejects.toMatchObject(REFUSED);
      expect(await exists(partition.name)).toBe(true);
    }
    for (const partition of [over, toNow]) {
      await call('detach_partition', of, partition);
      await call('drop_partition', of, partition);
      expect(await exists(partition.name)).toBe(false);
    }
  });

  it('the database makes no partition that would keep rows for years', async () => {
    const fromMs = partitionAt(of, Date.now(), of.ahead + 1).fromMs;
    const endless = partitionOver(of, fromMs, Date.UTC(2200, 0));
    await expect(call('add_partition', of, endless)).rejects.toMatchObject(REFUSED);
    await expect(call('constrain_default', of, endless)).rejects.toMatchObject(REFUSED);
  });
});

describe('the constraint of the default partition', () => {
  it('no constraint is made that would refuse a row of the next seven days', async () => {
    const old = partitionAt(observations, Date.UTC(2020, 0));
    const week = partitionOver(observations, dayAt(0).fromMs, dayAt(7).toMs);
    await dropDays([3]);
    for (const partition of [old, dayAt(2), dayAt(4)]) {
      await expect(call('constrain_default', observations, partition)).rejects.toMatchObject(REFUSED);
    }
    await insertBeat(dayAt(3).fromMs);
    await dropDays([0, 1, 2, 4, 5, 6, 7]);
    for (const partition of [old, dayAt(0), partitionOver(observations, dayAt(0).fromMs, dayAt(6).toMs)]) {
      await expect(call('constrain_default', observations, partition)).rejects.toMatchObject(REFUSED);
    }
    await insertBeat();
    await call('constrain_default', observations, week);
    await insertBeat();
    await insertBeat(Date.now() + 7 * DAY_MS - 1_000);
  });

  it('old rows may become a partition while the days ahead have theirs', async () => {
    await insertBeat(dayAt(-3).fromMs);
    await call('constrain_default', observations, dayAt(-3));
    await insertBeat();
    await insertBeat(dayAt(7).fromMs);
    await call('validate_default', observations, dayAt(-3));
    await call('replace_default', observations, dayAt(-3));
    await insertBeat(dayAt(40).fromMs);
  });
});

// An operator that is away for an hour, with the API and the sweep of deadlines: its CronJobs run every ten minutes meanwhile, and one
// of them no more. The hour passes at once: all that the database remembers becomes an hour older.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { incidentsOf } from '../support/stored-rows.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { ago, cronJobRef, type JobFixture, jobFixture } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const NAMES = ['healthy', 'failed', 'dead'];
const CLOCKS = 'wake deadline unmoved anchor first_beat last_beat last_success start_moved tokens'.split(' ');

describe.skipIf(!hasCluster)('an operator that was away for an hour', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
  });
  afterAll(() => fixture.close());

  /** While no operator is there. It has seen no Job since, and forgets none. */
  async function pass(ms: number, names: readonly string[]): Promise<void> {
    const { pool } = fixture.apiFixture;
    const columns = CLOCKS.map((name) => `${name}_ms = ${name}_ms - $1`);
    await pool.query(
      `update monitor_live set ${columns.join()}
       where monitor_key in (select monitor_key from monitors where name = any($2))`,
      [ms, names],
    );
    await pool.query('update operator_signs set seen_ms = seen_ms - $1', [ms]);
    await pool.query('update operator_outages set from_ms = from_ms - $1, to_ms = to_ms - $1', [ms]);
  }
  const run = async (name: string, seconds: number, end: 'success' | 'fail' = 'success') => {
    const cronJob = await jobs.cronJob(name);
    const job = `${name}-${seconds}`;
    await jobs.createJob(job, cronJob);
    await jobs.startJob(job, ago(seconds));
    if (end === 'success') await jobs.completeJob(job, ago(seconds - 5));
    else await jobs.failJob(job, 'BackoffLimitExceeded', { at: ago(seconds - 5) });
  };
  const whenSigned = (operator: TestOperator) =>
    waitFor(() => (operator.calls.get('signOperator') ?? 0) > 0, { what: 'a sign of life' });
  /** What the sweep has opened by now. */
  async function kinds(): Promise<Record<string, string[]>> {
    const { pool } = fixture.apiFixture;
    await moveClock(pool);
    await pool.query('update monitor_live set wake_ms = 1 where wake_ms is not null');
    await drain(makeSweep(pool));
    const found = await Promise.all(
      NAMES.map(async (name) => [name, (await incidents(name)).map(({ kind }) => kind)]),
    );
    return Object.fromEntries(found);
  }
  async function incidents(name: string) {
    const { pool } = fixture.apiFixture;
    const { rows } = await pool.query('select monitor_key as "monitorKey" from monitors where name = $1', [
      name,
    ]);
    return await incidentsOf(pool, rows[0]);
  }

  it('has no CronJob missed that ran, tells the one that failed, and the dead one is found afterwards', async () => {
    for (const name of NAMES) {
      await jobs.createCronJob(name, { schedule: '*/10 * * * *' });
      const spec = { callback: { kind: 'disabled' }, graceSeconds: 60, workloadRef: cronJobRef(name) };
      await fixture.createMonitor(name, spec);
    }
    const before = await fixture.startOperator();
    for (const name of NAMES) {
      await fixture.monitorBecomes(name, 'Ready', 'True');
      await run(name, 5);
      await jobs.beats(name, ['start', 'success']);
    }
    await whenSigned(before);
    await before.stop();

    await pass(HOUR_MS, NAMES);
    for (const name of NAMES) {
      const ref = { namespace: fixture.namespace, name };
      // The run of before is an hour old too, and its Job is gone.
      await jobs.deleteJob(`${name}-5`);
      const lastSuccessfulTime = ago(HOUR_MS / 1000);
      const status = { workload: { since: ago((2 * HOUR_MS) / 1000), lastSuccessfulTime } };
      await fixture.kube.client.mergePatch(MONITORS, ref, { status }, { subresource: 'status' });
    }
    await run('healthy', 1800);
    await run('healthy', 600);
    await run('failed', 1200, 'fail');
    expect(await kinds()).toEqual({ healthy: [], failed: [], dead: [] });

    const back = await fixture.startOperator();
    await jobs.beats('healthy', ['start', 'success', 'start', 'success', 'start', 'success']);
    await jobs.beats('failed', ['start', 'success', 'start', 'fail']);
    await whenSigned(back);
    const told = { healthy: [], failed: ['reported_failure'], dead: [] };
    expect(await kinds()).toEqual(told);
    await back.stop();

    // The next time of its schedule passes, with the grace, and the operator signs all the time. The schedule has the same times in
    // each ten minutes, so the stored moments stay true.
    await pass(20 * MINUTE_MS, ['dead']);
    await fixture.apiFixture.pool.query(
      'update operator_signs set seen_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint',
    );
    expect(await kinds()).toEqual({ ...told, dead: ['missed_deadline'] });
    const [missed] = await incidents('dead');
    const { rows } = await fixture.apiFixture.pool.query('select from_ms, to_ms from operator_outages');
    expect(rows).toHaveLength(1);
    expect(rows[0].to_ms - rows[0].from_ms).toBeGreaterThanOrEqual(HOUR_MS);
    expect(missed.deadline_at.getTime()).toBeGreaterThan(rows[0].to_ms);
  });
});

// A transaction whose statements are sent together: none of them is under way when its connection goes back.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { recordTransitions } from '../../src/service/incidents/incident-writer.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;
let warnings: string[];
const onWarning = ({ message }: Error) => warnings.push(message);
beforeAll(async () => {
  fixture = await openProjectFixture();
});
beforeEach(() => {
  warnings = [];
  process.on('warning', onWarning);
});
afterEach(() => process.off('warning', onWarning));
afterAll(() => fixture?.close());

describe('statements that are sent together', () => {
  it('a transaction whose connection ends is rolled back when none of its statements is under way', async () => {
    const { pool, project } = fixture;
    const holder = await pool.connect();
    await holder.query('begin');
    await holder.query('lock table callback_endpoints in access exclusive mode');
    const monitor = {
      projectId: project.projectId,
      monitorKey: '00000000-0000-4000-8000-000000000001',
      binding: { kind: 'organization_default' },
      transitions: [{ event: 'incident.opened' }],
    };
    const failed = inTransaction(pool, (tx) => recordTransitions(tx, [monitor as never], 0)).catch(
      (error: unknown) => error,
    );
    const isEnded = async () => {
      const { rowCount } = await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rowCount === 1;
    };
    await waitFor(isEnded, { what: 'the first of the statements waits, and its connection is ended' });
    expect(await failed).toMatchObject({ code: '57P01' });
    await holder.query('rollback');
    holder.release();
    expect(warnings).toEqual([]);
  });
});

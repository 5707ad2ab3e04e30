// What the tests of callback endpoints start from: a database, a project, a key, endpoints made by the use cases.
import { randomBytes } from 'node:crypto';
import { createCallback } from '../../src/service/callbacks/callbacks.ts';
import type { Caller } from '../../src/service/calls/context.ts';
import { runWrite } from '../../src/service/calls/write.ts';
import type { Connection, Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { createTestDatabase, openTestPool } from '../support/database.ts';
import { type SeedProject, seedProject } from '../support/seed.ts';

export interface CallbackFixture {
  pool: Pool;
  secrets: SecretBox;
  project: SeedProject;
  caller: Caller;
  inTx<T>(work: (tx: Connection) => Promise<T>): Promise<T>;
  /** Makes a webhook endpoint and answers its id. */
  makeEndpoint(alias: string, of?: Caller): Promise<string>;
  close(): Promise<void>;
}

/** Milliseconds; later than anything that a test makes by the clock. */
export const NOW_MS = Date.now();

export function callerOf(project: SeedProject): Caller {
  return {
    actor: { kind: 'session', id: 'ada', display: 'Ada' },
    organizationId: project.organizationId,
    projectId: project.projectId,
    mayManage: true,
    requestId: 'request',
  };
}

export async function openCallbackFixture(): Promise<CallbackFixture> {
  const database = await createTestDatabase();
  const pool = openTestPool(database.url, 4);
  const secrets = new SecretBox([{ id: 'k1', key: randomBytes(32) }]);
  const project = await seedProject(pool);
  const caller = callerOf(project);
  const inTx: CallbackFixture['inTx'] = (work) => inTransaction(pool, work);
  return {
    pool,
    secrets,
    project,
    caller,
    inTx,
    makeEndpoint: async (alias, of = caller) => {
      const input = { alias, kind: 'webhook' as const, url: `https://receiver.example/${alias}` };
      const { body } = await runWrite(pool, undefined)(
        (tx, _nowMs, atTheEnd) => createCallback(tx, { secrets }, { caller: of, input, atTheEnd }, NOW_MS),
        ({ endpoint }) => ({ status: 201, body: endpoint.id }),
      );
      return String(body);
    },
    close: async () => {
      await pool.end();
      await database.drop();
    },
  };
}

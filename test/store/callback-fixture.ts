// A project with an actor of its organization, and endpoints made by the use cases.
import { createCallback } from '../../src/service/callbacks/callbacks.ts';
import type { Caller } from '../../src/service/calls/context.ts';
import { runWrite } from '../../src/service/calls/write.ts';
import type { Connection } from '../../src/store/postgres/pool.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import type { SeedProject } from '../support/seed.ts';

export interface CallbackFixture extends ProjectFixture {
  caller: Caller;
  inTx<T>(work: (tx: Connection) => Promise<T>): Promise<T>;
  /** Makes a webhook endpoint and answers its id. */
  makeEndpoint(alias: string, of?: Caller): Promise<string>;
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
  const fixture = await openProjectFixture();
  const { pool, project, secrets } = fixture;
  const caller = callerOf(project);
  const inTx: CallbackFixture['inTx'] = (work) => inTransaction(pool, work);
  return {
    ...fixture,
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
  };
}

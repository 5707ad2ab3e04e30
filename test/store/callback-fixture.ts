// A project with an actor of its organization, and endpoints that the use cases create.
import { findPlan } from '../../src/domain/plan.ts';
import { createCallback } from '../../src/service/callbacks/callbacks.ts';
import type { Caller } from '../../src/service/calls/context.ts';
import type { AtTheEnd } from '../../src/service/calls/write.ts';
import type { Connection } from '../../src/store/postgres/pool.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import type { SeedProject } from '../support/seed.ts';

export interface CallbackFixture extends ProjectFixture {
  caller: Caller;
  inTx<T>(work: (tx: Connection) => Promise<T>): Promise<T>;
  /** Makes a webhook endpoint and returns its id. */
  makeEndpoint(alias: string, of?: Caller): Promise<string>;
}

/** Now, when the tests start. */
export const NOW_MS = Date.now();

export function callerOf(project: SeedProject): Caller {
  return {
    actor: { kind: 'session', id: 'ada', display: 'Ada' },
    organizationId: project.organizationId,
    projectId: project.projectId,
    mayManage: true,
    isOperator: false,
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
    makeEndpoint: (alias, of = caller) =>
      inTx(async (tx) => {
        const input = { alias, kind: 'webhook' as const, url: `https://receiver.example/${alias}` };
        const lastSteps: Parameters<AtTheEnd>[0][] = [];
        const atTheEnd: AtTheEnd = (step) => lastSteps.push(step);
        const { endpoint } = await createCallback(
          tx,
          { secrets, findPlan },
          { caller: of, input, atTheEnd },
          NOW_MS,
        );
        for (const step of lastSteps) await step(tx);
        return endpoint.endpointId;
      }),
  };
}

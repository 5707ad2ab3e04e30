// Operators that beat monitors: which monitors, whether they live, and what they see of the causes of missed beats.
import { askPresent } from '../../service/calls/homes.ts';
import { setBeatenBy } from '../../service/monitors/beaten-by.ts';
import { setOperatorCauses } from '../../service/monitors/operator-causes.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { signOperator } from '../../store/upkeep/operator-signs.ts';
import type { Handlers } from '../operation.ts';
import { answerMonitor, monitorNameOf } from './monitors.ts';

export const operatorHandlers: Handlers<
  'setMonitorBeatenBy' | 'clearMonitorBeatenBy' | 'signOperator' | 'setOperatorCauses'
> = {
  setMonitorBeatenBy: async (call) => {
    const operatorId = call.input.body.operatorId ?? undefined;
    return await call.write(
      (tx) => setBeatenBy(tx, call.context, { name: monitorNameOf(call), operatorId }),
      (monitor) => answerMonitor(monitor, call),
    );
  },

  clearMonitorBeatenBy: async (call) =>
    await call.write(
      (tx) => setBeatenBy(tx, call.context, { name: monitorNameOf(call), operatorId: undefined }),
      (monitor) => answerMonitor(monitor, call),
    ),

  // In each database with its monitors. One that is away hears of it later: the span until then is an outage there, and no beat
  // reached it either.
  signOperator: async ({ input: { params, body }, caller, homes }) => {
    const operator = { organizationId: caller.organizationId, operatorId: params.operatorId };
    await askPresent(homes, (db) => signOperator(db, operator, body.behind));
    return {};
  },

  // In each database with its monitors: each knows those that it has. One that is away hears of it with the next call.
  setOperatorCauses: async ({ input: { params, body }, caller, homes }) => {
    const operator = { organizationId: caller.organizationId, operatorId: params.operatorId };
    const named = body.causes.flatMap(({ cause, object, monitors }) =>
      monitors.map((monitor) => ({ ...monitor, cause, object })),
    );
    await askPresent(homes, (db) => inTransaction(db, (tx) => setOperatorCauses(tx, operator, named)));
    return {};
  },
};

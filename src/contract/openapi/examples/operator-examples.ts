// Examples of the operations about operators that beat monitors.
import type { operatorOperations } from '../../operations/operator-operations.ts';
import type { Examples } from './example.ts';
import { ID, MONITOR, monitor, OPERATOR } from './records.ts';

const params = { monitorId: MONITOR };

export const operatorExamples: Examples<keyof typeof operatorOperations> = {
  setMonitorBeatenBy: {
    params,
    body: { operatorId: OPERATOR },
    answer: { ...monitor, beatenBy: OPERATOR },
  },
  clearMonitorBeatenBy: { params, answer: monitor },
  signOperator: {
    params: { operatorId: OPERATOR },
    body: { behind: [{ projectId: ID.project, monitorId: MONITOR }] },
  },
  setOperatorCauses: {
    params: { operatorId: OPERATOR },
    body: {
      causes: [
        {
          cause: 'node_not_ready',
          object: 'worker-3',
          monitors: [{ projectId: ID.project, monitorId: MONITOR }],
        },
      ],
    },
  },
};

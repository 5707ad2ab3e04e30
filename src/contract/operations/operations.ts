// Every operation of the contract: the one table that the routes of the API, the operator's client and
// the OpenAPI document are built from.

import { type ContractLimits, PUBLISHED_LIMITS } from '../resources/monitor.ts';
import { callbackOperations } from './callback-operations.ts';
import { incidentOperations } from './incident-operations.ts';
import { monitorOperations } from './monitor-operations.ts';
import type { InputOf, RequestOf, ResultOf } from './operation.ts';
import { organizationOperations } from './organization-operations.ts';

/** The table, by operationId. A development run lowers the floors; the published contract has 60 seconds. */
export function contractOperations(limits: ContractLimits = PUBLISHED_LIMITS) {
  return {
    ...monitorOperations(limits),
    ...callbackOperations,
    ...incidentOperations,
    ...organizationOperations,
  };
}

export type Operations = ReturnType<typeof contractOperations>;
export type OperationId = keyof Operations;

/** What the handler of an operation gets: `params`, `query`, `body`, `idempotencyKey`, `ifMatch`, where it has them. */
export type OperationInput<Id extends OperationId> = InputOf<Operations[Id]>;
/** What a client of an operation states. */
export type OperationRequest<Id extends OperationId> = RequestOf<Operations[Id]>;
/** The body of a success. Undefined for a 204. */
export type OperationOutput<Id extends OperationId> = ResultOf<Operations[Id]>;

// The table of every operation of the contract. The routes of the API, the client and the OpenAPI document follow from it.
import { type ContractLimits, PUBLISHED_LIMITS } from '../resources/monitor.ts';
import { callbackOperations } from './callback-operations.ts';
import { draftOperations } from './draft-operations.ts';
import { incidentOperations } from './incident-operations.ts';
import { monitorOperations } from './monitor-operations.ts';
import type { InputOf, RequestOf, ResultOf } from './operation.ts';
import { operatorOperations } from './operator-operations.ts';
import { organizationOperations } from './organization-operations.ts';

/** The operations by operationId. A development run lowers the floors; the published contract has 60 seconds. */
export function contractOperations(limits: ContractLimits = PUBLISHED_LIMITS) {
  return {
    ...monitorOperations(limits),
    ...draftOperations,
    ...callbackOperations,
    ...incidentOperations,
    ...organizationOperations,
    ...operatorOperations,
  };
}

export type Operations = ReturnType<typeof contractOperations>;
export type OperationId = keyof Operations;

/** The input of a handler: `params`, `query`, `body`, `idempotencyKey`, `ifMatch`, where the operation has them. */
export type OperationInput<Id extends OperationId> = InputOf<Operations[Id]>;
/** What a client sends. */
export type OperationRequest<Id extends OperationId> = RequestOf<Operations[Id]>;
/** The body of a success; undefined for a 204. */
export type OperationOutput<Id extends OperationId> = ResultOf<Operations[Id]>;
/** The names of all parameters in paths of the contract. */
export type PathParameter = {
  [Id in OperationId]: Operations[Id] extends { params: { shape: infer Shape } } ? keyof Shape : never;
}[OperationId];

// What an example of an operation is: a request that works as it is shown, once its names and ids exist, and the answer.
import type {
  OperationId,
  OperationOutput,
  OperationRequest,
  Operations,
} from '../../operations/operations.ts';

type Request<Id extends OperationId> = Omit<OperationRequest<Id>, 'idempotencyKey' | 'ifMatch'>;
type Answer<Id extends OperationId> = Operations[Id] extends { streams: infer Types }
  ? { streams: Readonly<Record<keyof Types, unknown>> }
  : OperationOutput<Id> extends undefined
    ? object
    : { answer: OperationOutput<Id> };

export type Example<Id extends OperationId> = Request<Id> & Answer<Id>;
/** An example for each of these operations: the types ask for it. */
export type Examples<Ids extends OperationId> = { readonly [Id in Ids]: Example<Id> };

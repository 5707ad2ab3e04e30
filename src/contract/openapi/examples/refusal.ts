// What an example of a refusal is, and whom it is an example for.
import type { FieldError, Limit, ProblemCode, ProblemOptions } from '../../../domain/problem.ts';
import type { OperationSpec } from '../../operations/operation.ts';

export interface Refusal {
  code: ProblemCode;
  /** When it is answered. */
  summary: string;
  detail: string;
  fieldErrors?: FieldError[];
  limit?: Limit;
  holder?: ProblemOptions['holder'];
  retryAfterSeconds?: number;
  by: (spec: OperationSpec) => boolean;
}

export const always = () => true;
export const only =
  (...ids: string[]) =>
  ({ operationId }: OperationSpec) =>
    ids.includes(operationId);
export const writes = ({ method }: OperationSpec) => method !== 'GET';

// An example of each operation (the types ask for one). The OpenAPI document carries them, /docs shows them as curl, and a
// test runs them against an api.
import type { OperationId } from '../../operations/operations.ts';
import { callbackExamples } from './callback-examples.ts';
import { draftExamples } from './draft-examples.ts';
import type { Examples } from './example.ts';
import { incidentExamples } from './incident-examples.ts';
import { monitorExamples } from './monitor-examples.ts';
import { operatorExamples } from './operator-examples.ts';
import { organizationExamples } from './organization-examples.ts';

export interface AnyExample {
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, unknown>>;
  body?: unknown;
  answer?: unknown;
  /** A line of a streamed answer, or its text, by the media type. */
  streams?: Readonly<Record<string, unknown>>;
}

const EXAMPLES: Examples<OperationId> = {
  ...monitorExamples,
  ...draftExamples,
  ...callbackExamples,
  ...incidentExamples,
  ...organizationExamples,
  ...operatorExamples,
};

export function exampleOf(id: string): AnyExample {
  return EXAMPLES[id as OperationId] ?? {};
}

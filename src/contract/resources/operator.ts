// Operators that beat monitors: who beats a monitor, and their signs of life (docs/contract/deadlines.md).
import { z } from 'zod';
import { identifier, patterned } from '../fields/field.ts';

export const operatorId = patterned(
  /^[A-Za-z0-9][A-Za-z0-9._:/@-]*$/,
  256,
  'Must start with a letter or digit, then letters, digits, ".", "_", ":", "/", "@" or "-", at most 256 characters.',
);

export const beatenBy = operatorId.describe(
  'The operator that sends the beats. While it gives no sign of life the monitor is not judged. Absent: its job beats it.',
);

export const setBeatenByBody = z.strictObject({
  operatorId: operatorId.nullable().describe('Null: the operator beats it no more.'),
});

/** An operator that is behind with more gives no sign. */
export const MAX_BEHIND = 200;

export const signBody = z.strictObject({
  behind: z
    .array(
      z.strictObject({
        projectId: identifier,
        monitorId: identifier.optional().describe('Absent: all that it beats in the project.'),
      }),
    )
    .max(MAX_BEHIND)
    .optional()
    .describe(
      'Monitors that this sign leaves out: of which the operator has not told all that it saw, or that it cannot see. They are judged up to the last sign that had them.',
    ),
});

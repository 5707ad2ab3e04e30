// Operators that beat monitors: who beats a monitor, and their signs of life (docs/contract/deadlines.md).
import { z } from 'zod';
import { patterned } from '../fields/field.ts';

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

// vitest setupFile of `npm run test:distributed`: the statements of the test's process are those for Citus, and tests of
// what Citus has not are left out.
import { relative } from 'node:path';
import { beforeEach } from 'vitest';
import { useEngine } from '../../src/store/postgres/engine.ts';
import { reasonAgainst } from './not-on-citus.ts';

useEngine('citus');

beforeEach(({ task, skip }) => {
  const reason = reasonAgainst(relative(process.cwd(), task.file.filepath), task.name);
  skip(reason !== undefined, reason);
});

// vitest setupFile of `npm run test:distributed`: the statements of the test's process are those for Citus.
import { useEngine } from '../../src/store/postgres/engine.ts';

useEngine('citus');

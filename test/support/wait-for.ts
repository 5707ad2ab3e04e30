// Waiting for a state: the same function that development uses.
export { waitFor } from '../../src/dev/wait-for.ts';

// Free ports for servers of tests: the same function that development uses.
export { findFreePort } from '../../src/dev/processes/free-port.ts';

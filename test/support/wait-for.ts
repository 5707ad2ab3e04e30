// Waiting for a state, as development does it, with a patience that no slow machine wears out.
import { type WaitOptions, waitFor as waitForState } from '../../src/dev/processes/wait-for.ts';

/** As in development. A shorter `timeoutMs` than the default of 60 s would test the machine and not the product. */
export const waitFor: typeof waitForState = (probe, options: WaitOptions = {}) =>
  waitForState(probe, { timeoutMs: 60_000, ...options });

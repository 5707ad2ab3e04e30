// Waits for a state as development does, with a default time-out that no slow machine reaches.
import { type WaitOptions, waitFor as waitForState } from '../../src/dev/processes/wait-for.ts';

/** A `timeoutMs` shorter than the default of three minutes would test the machine and not the product. */
export const waitFor: typeof waitForState = (probe, options: WaitOptions = {}) =>
  waitForState(probe, { timeoutMs: 180_000, ...options });

// What the parts of a development run share while it starts.
import type { DevelopmentOptions } from './development-options.ts';
import type { DevelopmentOutput } from './development-output.ts';
import type { Supervisor } from './processes/supervisor.ts';
import type { State } from './state.ts';

export interface RunContext {
  options: DevelopmentOptions;
  state: State;
  /** The environment of every process of the run, with the run's mark. */
  env: NodeJS.ProcessEnv;
  output: DevelopmentOutput;
  supervisor: Supervisor;
  /** Aborted when the run is told to end. */
  signal: AbortSignal;
  /** Steps back: run in reverse order when the run ends. */
  cleanup: (() => Promise<unknown>)[];
}

// What a command is: its words for --help, its options, and what it does. The table of all of them is in main.ts.
import type { Cluster } from './cluster.ts';
import type { Option, Values } from './option.ts';

export interface Call {
  cluster: Cluster;
  operands: readonly string[];
  values: Values;
  isJson: boolean;
  /** Prints a line for people on standard error, at once. */
  note(text: string): void;
  /** Prints on standard output, at once: only of a command that goes on. */
  print(text: string): void;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
}

export interface Result {
  /** Printed with `-o json`; undefined: nothing. */
  json: unknown;
  /** Printed without; empty: nothing. */
  text: string;
  /** Default 0. */
  exitCode?: number;
}

export interface Command {
  name: string;
  /** The operands in --help, such as `<monitor>`. Each `<…>` must be given. */
  operands: readonly string[];
  summary: string;
  /** More lines for --help. */
  details: string;
  options: readonly Option[];
  /** It goes on until the signal, prints by itself, and ends in order. */
  isEndless?: true;
  /** Throws a Refusal. */
  run(call: Call): Promise<Result>;
}

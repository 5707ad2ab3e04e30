#!/usr/bin/env node
// The entry point of the plugin `kubectl-beat`: finds the command, reads its arguments, prints its result or why there is
// none. No module imports it.
import type { Call, Command, Result } from './command.ts';
import { ACK } from './commands/ack.ts';
import { DASHBOARD } from './commands/dashboard.ts';
import { EXPLAIN } from './commands/explain.ts';
import { PAUSE, RESUME } from './commands/lifecycle.ts';
import { MAINTENANCE } from './commands/maintenance.ts';
import { REPLAY } from './commands/replay.ts';
import { SEND } from './commands/send.ts';
import { STATUS } from './commands/status.ts';
import { URL_OF } from './commands/url.ts';
import { COMMON_OPTIONS, describeOptions, isGiven, readArguments, textOf } from './option.ts';
import { REFUSED, Refusal } from './refusal.ts';
import { formatJson, printable } from './table.ts';

const COMMANDS: readonly Command[] = [
  STATUS,
  EXPLAIN,
  URL_OF,
  SEND,
  PAUSE,
  RESUME,
  MAINTENANCE,
  ACK,
  REPLAY,
  DASHBOARD,
];

/** What a shell shows for a program that SIGINT ended. */
const INTERRUPTED = 130;

async function main([name = '--help', ...args]: string[]): Promise<number> {
  if (['help', '--help', '-h'].includes(name)) return print(describeCommands());
  const command = COMMANDS.find((one) => one.name === name);
  if (command === undefined) {
    throw new Refusal(`There is no command ${name}: \`kubectl beat --help\` lists the commands.`);
  }
  const { operands, values } = readArguments(name, [...command.options, ...COMMON_OPTIONS], args);
  if (isGiven(values, 'help')) return print(describeCommand(command));
  const output = textOf(values, 'output');
  if (output !== undefined && output !== 'json') {
    throw new Refusal(`There is no output ${output}: state -o json, or leave it out.`);
  }
  if (operands.length !== command.operands.length) {
    throw new Refusal(`The command is \`${usageOf(command)}\`: \`kubectl beat ${name} --help\` says more.`);
  }
  // The client of the cluster is most of what there is to load: help and wrong arguments need none of it.
  const { Cluster } = await import('./cluster.ts');
  const cluster = new Cluster({
    file: textOf(values, 'kubeconfig'),
    context: textOf(values, 'context'),
    namespace: textOf(values, 'namespace'),
  });
  const interrupt = new AbortController();
  // Not once: a second one while the connections close would end it as a fault.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupt.abort());
  try {
    const isJson = output === 'json';
    const call: Call = {
      ...{ cluster, operands, values, isJson, signal: interrupt.signal },
      note: (text) => process.stderr.write(`${printable(text)}\n`),
      print,
    };
    const running = command.run(call);
    const result = command.isEndless ? await running : await untilInterrupted(running, interrupt.signal);
    return printResult(result, isJson);
  } finally {
    await cluster.close();
  }
}

/** A command that waits for an answer ends at once, whatever it waits for. */
async function untilInterrupted(running: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(new Interrupted()), { once: true });
  return await Promise.race([running, promise]);
}

class Interrupted extends Error {}

function printResult({ json, text, exitCode = 0 }: Result, isJson: boolean): number {
  if (!isJson && text !== '') print(text);
  if (isJson && json !== undefined) print(formatJson(json));
  return exitCode;
}

function print(text: string): number {
  process.stdout.write(`${printable(text)}\n`);
  return 0;
}

function usageOf({ name, operands }: Command): string {
  return ['kubectl beat', name, ...operands].join(' ');
}

function describeCommands(): string {
  const rows = COMMANDS.map((command) => ({
    usage: [command.name, ...command.operands].join(' '),
    summary: command.summary,
  }));
  const width = Math.max(...rows.map(({ usage }) => usage.length));
  return [
    'Beatkeeper from the command line: Monitors of a namespace, with your rights in the cluster.',
    '',
    'Usage: kubectl beat <command> [options]',
    '',
    ...rows.map(({ usage, summary }) => `  ${usage.padEnd(width)}  ${summary}`),
    '',
    'Options of every command:',
    describeOptions(COMMON_OPTIONS),
    '',
    '`kubectl beat <command> --help` says more of one. Exit code: 0 done, above 1 not done; `status` exits 1 when a',
    'Monitor is down.',
  ].join('\n');
}

function describeCommand(command: Command): string {
  return [
    `Usage: ${usageOf(command)} [options]`,
    '',
    `${command.summary[0]?.toUpperCase()}${command.summary.slice(1)}. ${command.details}`,
    '',
    'Options:',
    describeOptions([...command.options, ...COMMON_OPTIONS]),
  ].join('\n');
}

function describe(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof Refusal ? text : `This is a fault of kubectl beat: ${text}`;
}

/** A pipe takes what was written to it before the process ends; a reader that has gone needs nothing more. */
function flush(): Promise<void> {
  return new Promise((resolve) => {
    if (process.stdout.destroyed) resolve();
    else process.stdout.write('', () => resolve());
  });
}

process.stdout.on('error', () => undefined);
// Of a process that ends before its command does: that is no success.
process.exitCode = REFUSED;
void main(process.argv.slice(2))
  .catch((error: unknown) => {
    if (error instanceof Interrupted) return INTERRUPTED;
    process.stderr.write(`kubectl beat: ${printable(describe(error))}\n`);
    return REFUSED;
  })
  .then(async (code) => {
    await flush();
    process.exit(code);
  });

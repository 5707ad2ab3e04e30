// The arguments of a command: its options as a table, from which parsing and --help follow.
import { parseArgs } from 'node:util';
import { Refusal } from './refusal.ts';

export interface Option {
  name: string;
  short?: string;
  /** The word for the value in --help; absent: the option has none. */
  value?: string;
  isRepeatable?: boolean;
  text: string;
}

export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

export interface Arguments {
  operands: readonly string[];
  values: Values;
}

export const COMMON_OPTIONS: readonly Option[] = [
  { name: 'namespace', short: 'n', value: 'namespace', text: 'the namespace; default: that of the context' },
  { name: 'context', value: 'name', text: 'the context of the kubeconfig; default: the current one' },
  { name: 'kubeconfig', value: 'file', text: 'the kubeconfig; default: KUBECONFIG, else ~/.kube/config' },
  { name: 'output', short: 'o', value: 'json', text: 'prints JSON in place of text' },
  { name: 'help', short: 'h', text: 'prints this' },
];

export const ALL_NAMESPACES: Option = {
  name: 'all-namespaces',
  short: 'A',
  text: 'all namespaces',
};

/** Throws a Refusal for an option that is not in the table, and for a value that is missing or too much. */
export function readArguments(
  command: string,
  options: readonly Option[],
  args: readonly string[],
): Arguments {
  const config = Object.fromEntries(
    options.map(({ name, short, value, isRepeatable }) => [
      name,
      {
        type: value === undefined ? ('boolean' as const) : ('string' as const),
        ...(short === undefined ? {} : { short }),
        multiple: isRepeatable === true,
      },
    ]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: args.map(withoutEquals),
      options: config,
      allowPositionals: true,
      strict: true,
    });
    return { operands: positionals, values: values as Values };
  } catch (error) {
    const [first = ''] = (error as Error).message.split('. ');
    const help = `kubectl beat ${command} --help`;
    throw new Refusal(`${first.replaceAll("'", '').replace(/\.$/, '')}: \`${help}\` lists the options.`);
  }
}

/** kubectl takes `-o=json` for `-ojson`; Node would read the value `=json`. */
function withoutEquals(arg: string): string {
  return /^-[A-Za-z]=/.test(arg) ? `${arg.slice(0, 2)}${arg.slice(3)}` : arg;
}

/** The value of an option that is text; undefined if it is not given. Throws a Refusal if it is empty. */
export function textOf(values: Values, name: string): string | undefined {
  const value = values[name];
  if (value === '') throw new Refusal(`--${name} is empty: state a value, or leave the option out.`);
  return typeof value === 'string' ? value : undefined;
}

export function isGiven(values: Values, name: string): boolean {
  return values[name] === true;
}

/** The lines of --help about the options. */
export function describeOptions(options: readonly Option[]): string {
  const rows = options.map(({ name, short, value, text }) => {
    const long = `--${name}${value === undefined ? '' : ` <${value}>`}`;
    return { left: `${short === undefined ? '    ' : `-${short}, `}${long}`, text };
  });
  const width = Math.max(...rows.map(({ left }) => left.length));
  return rows.map(({ left, text }) => `  ${left.padEnd(width)}  ${text}`).join('\n');
}

// Turns an environment into the frozen configuration of a role, or reports every fault at once.
import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { inVariable, type VariableInfo, variables } from './variable.ts';

/** Has one sentence for each variable that is missing or wrong. It never shows a value. */
export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The configuration has faults:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the variables of `schema`. Throws ConfigError.
 * `<NAME>_FILE` names a file whose content, without newlines at its end, is the value of `<NAME>`.
 */
export function readConfig<T extends z.ZodRawShape>(
  schema: z.ZodObject<T>,
  environment: Environment,
): Readonly<z.infer<z.ZodObject<T>>> {
  const faults: string[] = [];
  const settings = listVariables(schema);
  const values = Object.fromEntries(settings.map(([key, info]) => [key, read(info, environment, faults)]));
  const parsed = schema.safeParse(values);
  if (parsed.success && faults.length === 0) return Object.freeze(parsed.data);
  const infos = new Map(settings);
  for (const { path, message } of parsed.error?.issues ?? []) {
    const [key, ...inner] = path.map(String);
    const info = infos.get(key ?? '');
    const name = info?.words ? nameOf(info, inner.shift() ?? '') : (info?.name ?? key);
    if (faults.some((fault) => fault.startsWith(`${name}_FILE `))) continue; // reported already
    faults.push(`${name} ${inner.length > 0 ? `at ${inner.join('.')}: ` : ''}${message}`);
  }
  throw new ConfigError(faults);
}

/** What the environment has for a setting: a text, or texts by word. Adds its faults to `faults`. */
function read(info: VariableInfo, environment: Environment, faults: string[]): unknown {
  const readOne = (one: VariableInfo) => {
    try {
      return readVariable(one, environment);
    } catch (error) {
      faults.push((error as Error).message);
      return undefined;
    }
  };
  if (!info.words) return readOne(info);
  faults.push(...findUnknown(info, environment));
  const entries = info.words.map((word) => [word, readOne({ ...info, name: nameOf(info, word) })]);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

const WORD = '<NAME>';

function nameOf({ name }: VariableInfo, word: string): string {
  return name.replace(WORD, inVariable(word));
}

/** A sentence for each variable that is one of the setting but for its word. */
function findUnknown(info: VariableInfo, environment: Environment): string[] {
  const [before = '', after = ''] = info.name.split(WORD);
  const known = new Set(info.words?.map((word) => nameOf(info, word)));
  const unknown = Object.keys(environment).filter((variable) => {
    const name = variable.replace(/_FILE$/, '');
    return name.startsWith(before) && name.endsWith(after) && !known.has(name) && environment[variable];
  });
  const words = info.words?.map(inVariable).join(', ');
  return unknown.map((variable) => `${variable} is no setting: ${WORD} of ${info.name} is one of ${words}.`);
}

function readVariable({ name, fallback }: VariableInfo, environment: Environment): string | undefined {
  const value = environment[name];
  const file = environment[`${name}_FILE`];
  if (!file) return value === undefined || value === '' ? fallback : value;
  if (value) throw new Error(`${name}_FILE and ${name} are both set: remove one.`);
  try {
    return readFileSync(file, 'utf8').replace(/[\r\n]+$/, '');
  } catch (error) {
    // Not what it was set to: that may be the secret itself, by mistake.
    throw new Error(
      `${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code}).`,
    );
  }
}

/** The settings of a schema in their order: [key, variable]. */
export function listVariables(schema: z.ZodObject): [string, VariableInfo][] {
  return Object.entries(schema.shape).map(([key, field]) => {
    const info = variables.get(field);
    if (info === undefined) throw new RangeError(`The setting ${key} has no variable.`);
    return [key, info];
  });
}

/** The text of `--help`: each variable with its description and default. */
export function describeConfig(role: string, schema: z.ZodObject): string {
  const entries = listVariables(schema).map(([, { name, description, fallback }]) => {
    const ending = fallback === undefined || fallback === '' ? '' : ` Default: ${fallback}.`;
    return `  ${name}\n      ${description}${ending}`;
  });
  const head = `Usage: node src/main.ts ${role}\n\nEnvironment (<NAME>_FILE may name a file that contains the value of <NAME>):`;
  return [head, ...entries].join('\n\n');
}

// Turns an environment into the frozen configuration of a role, or reports every fault at once.
import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { type VariableInfo, variables } from './variable.ts';

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
  const values: Record<string, string | undefined> = {};
  for (const [key, info] of listVariables(schema)) {
    try {
      values[key] = readVariable(info, environment);
    } catch (error) {
      faults.push((error as Error).message);
    }
  }
  const parsed = schema.safeParse(values);
  if (parsed.success && faults.length === 0) return Object.freeze(parsed.data);
  const names = new Map(listVariables(schema).map(([key, { name }]) => [key, name]));
  for (const { path, message } of parsed.error?.issues ?? []) {
    const [key, ...inner] = path;
    const name = names.get(String(key)) ?? String(key);
    if (faults.some((fault) => fault.startsWith(`${name}_FILE `))) continue; // reported already
    faults.push(`${name} ${inner.length > 0 ? `at ${inner.join('.')}: ` : ''}${message}`);
  }
  throw new ConfigError(faults);
}

function readVariable({ name, fallback }: VariableInfo, environment: Environment): string | undefined {
  const value = environment[name];
  const file = environment[`${name}_FILE`];
  if (!file) return value === undefined || value === '' ? fallback : value;
  if (value) throw new Error(`${name}_FILE and ${name} are both set: remove one.`);
  try {
    return readFileSync(file, 'utf8').replace(/[\r\n]+$/, '');
  } catch (cause) {
    throw new Error(`${name}_FILE names a file that cannot be read: ${file}`, { cause });
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

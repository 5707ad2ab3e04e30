// Reads the arguments and the environment of `npm run dev` (docs/contract/development.md).
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

export interface DevelopmentOptions {
  /** Port of the first api; 0 picks a free port. */
  port: number;
  stateFolder: string;
  /** A database to use instead of a Postgres server of the run's own. */
  databaseUrl: string | undefined;
  minimumIntervalSeconds: number;
  logLevel: string;
  cluster: boolean;
  examples: boolean;
  /** Builds the dashboard again on each change of its source. */
  watch: boolean;
  replicas: number;
}

const HELP = 'The options are --no-cluster, --no-examples, --watch and --replicas N.';

/** Throws an Error whose message is for people. */
export function readDevelopmentOptions(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): DevelopmentOptions {
  const values = parse(args);
  return {
    port: readInteger('PORT', env.PORT || '8080', 0, 65_535),
    stateFolder: resolve(env.BEATKEEPER_STATE_DIR || '.beatkeeper'),
    databaseUrl: env.DATABASE_URL || undefined,
    minimumIntervalSeconds: readInteger(
      'BEATKEEPER_MINIMUM_INTERVAL_SECONDS',
      env.BEATKEEPER_MINIMUM_INTERVAL_SECONDS || '60',
      1,
      60,
    ),
    logLevel: env.BEATKEEPER_LOG_LEVEL || 'warn',
    cluster: !values['no-cluster'],
    examples: !values['no-examples'],
    watch: values.watch,
    replicas: readInteger('--replicas', values.replicas ?? '1', 1, 16),
  };
}

function parse(args: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        'no-cluster': { type: 'boolean', default: false },
        'no-examples': { type: 'boolean', default: false },
        watch: { type: 'boolean', default: false },
        replicas: { type: 'string' },
      },
    });
    return values;
  } catch (error) {
    throw new Error(`${(error as Error).message.split('. ')[0]}. ${HELP}`, { cause: error });
  }
}

function readInteger(name: string, text: string, minimum: number, maximum: number): number {
  const value = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= minimum && value <= maximum) return value;
  throw new Error(
    `${name} must be a whole number from ${minimum} to ${maximum}, not ${JSON.stringify(text)}.`,
  );
}

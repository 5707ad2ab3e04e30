// The entry point: reads the environment, runs the named role until a signal, exits. No module imports it.
// It loads only the named role, so that api and sweeper never load the Kubernetes client.
import type { z } from 'zod';
import { apiSchema } from './config/api-config.ts';
import { migrateSchema } from './config/migrate-config.ts';
import { crdsSchema, finalizersSchema, operatorSchema, secretsSchema } from './config/operator-config.ts';
import { ConfigError, describeConfig, readConfig } from './config/read-config.ts';
import { sweeperSchema } from './config/sweeper-config.ts';
import { releaseOf } from './contract/crd/custom-resources.ts';
import { useEngine } from './store/postgres/engine.ts';
import { startHealthServer } from './telemetry/health-server.ts';
import { type Running, runUntilSignal } from './telemetry/run-until-signal.ts';
import { createTelemetry, type Telemetry } from './telemetry/telemetry.ts';

const DEFAULT_PUBLIC_PORT = 8080;

interface Role {
  help(): string;
  /** Runs the role to its end and returns the exit code. */
  run(args: string[]): Promise<number>;
}

const ROLES: Readonly<Record<string, Role>> = {
  api: role('api', apiSchema, async (config, telemetry) => {
    const { startApi } = await import('./api/start-api.ts');
    useEngine(config.databaseEngine);
    const scheme = config.tlsFolder === undefined ? 'http' : 'https';
    const publicUrl = config.publicUrl ?? `${scheme}://127.0.0.1:${config.port}`;
    if (config.port === config.healthPort)
      throw new ConfigError(['BEATKEEPER_HEALTH_PORT is the port of PORT: health has a port of its own.']);
    const start = () => startApi({ ...config, publicUrl }, telemetry);
    return await runWithHealth(config, telemetry, start, config.drainSeconds * 1_000);
  }),

  sweeper: role('sweeper', sweeperSchema, async (config, telemetry) => {
    const { startSweeper } = await import('./sweeper/start-sweeper.ts');
    useEngine(config.databaseEngine);
    const publicUrl = config.publicUrl ?? `http://127.0.0.1:${DEFAULT_PUBLIC_PORT}`;
    return await runWithHealth(config, telemetry, () => startSweeper({ ...config, publicUrl }, telemetry));
  }),

  operator: role('operator', operatorSchema, async (config, telemetry) => {
    const { startOperator } = await import('./operator/start-operator.ts');
    return await runWithHealth(config, telemetry, () => startOperator(config, telemetry));
  }),

  migrate: role('migrate', migrateSchema, async (config, { log }) => {
    const { migrateInstallation } = await import('./install/migrate-installation.ts');
    useEngine(config.databaseEngine);
    await migrateInstallation(config, log);
    return 0;
  }),

  crds: role('crds', crdsSchema, async ({ kubeconfig }, { log }) => {
    const { connectCluster } = await import('./install/connect-cluster.ts');
    const { applyCrds } = await import('./install/apply-crds.ts');
    const cluster = connectCluster(kubeconfig);
    const { applied, newer } = await applyCrds(cluster);
    log.info({ names: applied }, 'Applied the custom resource definitions.');
    if (newer.length > 0)
      log.warn({ names: newer }, 'The cluster has definitions of a newer version: left them as they are.');
    await cluster.transport.close();
    return 0;
  }),

  finalizers: role('finalizers', finalizersSchema, async (config, { log }) => {
    const { connectCluster } = await import('./install/connect-cluster.ts');
    const { endOperator } = await import('./install/end-operator.ts');
    const { releaseObjects } = await import('./install/release-objects.ts');
    const cluster = connectCluster(config.kubeconfig);
    await endOperator(cluster, config, log);
    const { namespace, operatorDeployment: name, watchNamespaces } = config;
    const release = name === undefined ? undefined : releaseOf({ namespace, name });
    await releaseObjects(cluster.client, { watchNamespaces, release }, log);
    await cluster.transport.close();
    return 0;
  }),

  secrets: role('secrets', secretsSchema, async (config, { log }) => {
    const { connectCluster } = await import('./install/connect-cluster.ts');
    const { createSecrets } = await import('./install/create-secrets.ts');
    const cluster = connectCluster(config.kubeconfig);
    await createSecrets(cluster, config, log);
    await cluster.transport.close();
    return 0;
  }),

  dev: {
    help: () =>
      'Usage: npm run dev -- [--no-cluster] [--no-examples] [--replicas N]\n\n' +
      'Runs the whole product on this machine, until Ctrl-C.\n\n' +
      '  --no-cluster   no Kubernetes control plane and no operator\n' +
      '  --no-examples  does not apply examples/ to the cluster\n' +
      '  --replicas N   processes of each role, 1 to 16 (default 1)\n\n' +
      'Environment: PORT, DATABASE_URL, BEATKEEPER_STATE_DIR, BEATKEEPER_MINIMUM_INTERVAL_SECONDS,\n' +
      'BEATKEEPER_LOG_LEVEL, KUBEBUILDER_ASSETS, TEST_KUBECONFIG.',
    async run(args) {
      const { runDevelopment } = await import('./dev/run-development.ts');
      return await runDevelopment(args);
    },
  },
};

function role<T extends z.ZodRawShape>(
  name: string,
  schema: z.ZodObject<T>,
  run: (
    config: Readonly<z.infer<z.ZodObject<T>>> & { logLevel: string },
    telemetry: Telemetry,
  ) => Promise<number>,
): Role {
  return {
    help: () => describeConfig(name, schema),
    async run() {
      const config = readConfig(schema, process.env) as Readonly<z.infer<z.ZodObject<T>>> & {
        logLevel: string;
      };
      const telemetry = createTelemetry({ role: name, logLevel: config.logLevel });
      exitOnFault(telemetry);
      return await run(config, telemetry);
    },
  };
}

// After an uncaught error the state of the process is unknown: it exits, and a new process starts.
function exitOnFault({ log }: Telemetry): void {
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, (error: unknown) => {
      log.fatal({ err: error }, 'Uncaught error: the process exits.');
      process.exit(1);
    });
  }
}

async function runWithHealth(
  config: { host: string; healthPort: number },
  telemetry: Telemetry,
  start: () => Promise<Running>,
  drainMs?: number,
): Promise<number> {
  const health = await startHealthServer({ host: config.host, port: config.healthPort }, telemetry);
  try {
    return await runUntilSignal(start, telemetry, drainMs);
  } finally {
    await health.close();
  }
}

async function main([name = '', ...args]: string[]): Promise<number> {
  const chosen = Object.hasOwn(ROLES, name) ? ROLES[name] : undefined;
  if (chosen === undefined) {
    const wantsHelp = ['', '--help', '-h'].includes(name);
    const usage = `Usage: node src/main.ts <${Object.keys(ROLES).join('|')}> [--help]\n`;
    if (wantsHelp) process.stdout.write(usage);
    else process.stderr.write(`Unknown role ${name}. ${usage}`);
    return wantsHelp ? 0 : 1;
  }
  if (args.includes('--help')) {
    process.stdout.write(`${chosen.help()}\n`);
    return 0;
  }
  try {
    return await chosen.run(args);
  } catch (error) {
    const message = error instanceof ConfigError ? error.message : describe(error);
    process.stderr.write(`beatkeeper ${name}: ${message}\n`);
    return 1;
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : '';
  return `${error.message}${cause}`;
}

process.exit(await main(process.argv.slice(2)));

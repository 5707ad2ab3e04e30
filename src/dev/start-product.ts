// Starts the parts of a development run in order: Postgres with its content, the issuer, the cluster, the roles, the
// examples. It announces when all of them are ready.
import { migrate } from '../store/postgres/migrate.ts';
import {
  type DevelopmentCluster,
  openDevelopmentCluster,
  RELEASE,
  SYSTEM_NAMESPACE,
} from './control-plane/development-cluster.ts';
import { openControlPlane } from './control-plane/development-control-plane.ts';
import { writeKubeconfigWithApi } from './control-plane/kubeconfig-api.ts';
import { buildDashboard } from './dashboard.ts';
import { type DevelopmentIssuer, startDevelopmentIssuer } from './development-issuer.ts';
import type { DevelopmentOptions } from './development-options.ts';
import { type DevelopmentOutput, describeLogLine, describeReady, type Ready } from './development-output.ts';
import { type DevelopmentDatabase, openDevelopmentDatabase } from './postgres/development-database.ts';
import { isPortFree } from './processes/free-port.ts';
import { type RoleProcess, roleSpec, waitForRole } from './processes/role-processes.ts';
import type { Supervisor } from './processes/supervisor.ts';
import { ORGANIZATION, OTHER_ORGANIZATION, type Seed, seed } from './seed.ts';
import type { State } from './state.ts';

/** What the parts of a run share while it starts. */
export interface RunContext {
  options: DevelopmentOptions;
  state: State;
  /** The environment of every process of the run, with its mark. */
  env: NodeJS.ProcessEnv;
  output: DevelopmentOutput;
  supervisor: Supervisor;
  /** Aborted when the run has to end. */
  signal: AbortSignal;
  /** The steps that end the run, which run in reverse order. */
  cleanup: (() => Promise<unknown>)[];
}

/** Resolves when it has announced `ready`. Throws an Error whose message is for people. */
export async function startProduct(context: RunContext): Promise<void> {
  const { options, output, state } = context;
  await requireApiPort(context);
  const [database, cluster] = await Promise.all([
    startDatabase(context),
    startCluster(context),
    startDashboard(context),
  ]);
  const issuer = await startIssuer(context);
  await state.save();
  const roles = await startRoles(context, { database, issuer, cluster });
  await Promise.all(roles.map((role) => waitForRole(role, context.signal)));
  if (cluster && options.examples) await applyExamples(context, cluster);
  const ready = await describeRun({ roles, database, issuer });
  if (cluster) ready.kubeconfig = await nameApi(context, cluster, ready.api);
  output.announce('ready', ready);
  output.print(describeReady(ready, cluster?.toolsFolder));
}

/** Throws if the port that the user chose is taken: before anything is started. */
async function requireApiPort({ options, state }: RunContext): Promise<void> {
  if (options.port === 0) return;
  state.reservePort(options.port);
  if (await isPortFree(options.port)) return;
  throw new Error(
    `Port ${options.port} is taken: end the program that listens on it, or set PORT to another port (0 picks a free one).`,
  );
}

interface StartedDatabase extends DevelopmentDatabase {
  seeded: Seed;
}

async function startDatabase(context: RunContext): Promise<StartedDatabase> {
  const { options, output, state, supervisor, signal, env } = context;
  const database = await openDevelopmentDatabase(state, options.databaseUrl, env);
  await state.save(); // from now on the server has these passwords
  if (database.server) supervisor.keep(database.server);
  await database.waitUntilReady(signal);
  await migrate({
    databaseUrl: database.databaseUrl,
    onApplied: ({ name }) => output.print(`Applied the migration ${name}.`),
  });
  return { ...database, seeded: await seed(state, database.databaseUrl) };
}

async function startDashboard({ options, output, cleanup }: RunContext): Promise<void> {
  const dashboard = await buildDashboard({ watch: options.watch, print: output.print });
  cleanup.push(() => dashboard.close());
}

async function startIssuer({ state, cleanup }: RunContext): Promise<DevelopmentIssuer> {
  const issuer = await startDevelopmentIssuer(state);
  cleanup.push(() => issuer.close());
  return issuer;
}

interface StartedCluster extends DevelopmentCluster {
  kubeconfig: string;
  toolsFolder: string | undefined;
}

async function startCluster(context: RunContext): Promise<StartedCluster | undefined> {
  const { options, output, state, supervisor, signal, env, cleanup } = context;
  if (!options.cluster) return undefined;
  const plane = await openControlPlane(state, env, output.print);
  if (plane === undefined) return undefined;
  for (const server of plane.servers) supervisor.keep(server);
  await plane.waitUntilReady(signal);
  const { kubeconfig, toolsFolder } = plane;
  const { minimumIntervalSeconds } = options;
  const settings = { kubeconfig, minimumIntervalSeconds, organization: ORGANIZATION };
  const cluster = await openDevelopmentCluster(state, settings, output.print);
  cleanup.push(() => cluster.close());
  return { ...cluster, kubeconfig, toolsFolder };
}

interface Started {
  database: StartedDatabase;
  issuer: DevelopmentIssuer;
  cluster: StartedCluster | undefined;
}

async function startRoles(context: RunContext, started: Started): Promise<RoleProcess[]> {
  const { options, output, state, supervisor, env } = context;
  const { database, issuer, cluster } = started;
  // Free ports are chosen now, and not before the start of Postgres: meanwhile others could take them.
  const apiPort = options.port === 0 ? await state.port('api-1') : options.port;
  const roles: RoleProcess[] = [];
  for (const role of ['api', 'sweeper', ...(cluster ? (['operator'] as const) : [])] as const) {
    for (let number = 1; number <= options.replicas; number += 1) {
      const name = `${role}-${number}`;
      const healthPort = await state.port(`${name}-health`);
      if (role !== 'api') roles.push({ role, number, healthPort });
      else roles.push({ role, number, healthPort, port: number === 1 ? apiPort : await state.port(name) });
    }
  }
  await state.save();
  const settings = {
    databaseUrl: database.databaseUrl,
    encryptionKeys: state.values.encryptionKeys,
    issuers: [issuer.settings, ...(cluster ? [cluster.issuer] : [])],
    minimumIntervalSeconds: options.minimumIntervalSeconds,
    logLevel: options.logLevel,
    publicUrl: addressOf(apiPort),
  };
  const operator = cluster && {
    kubeconfig: cluster.kubeconfig,
    tokenFile: cluster.tokenFile,
    namespace: SYSTEM_NAMESPACE,
  };
  for (const role of roles) {
    const spec = roleSpec(role, env, settings, operator);
    supervisor.keep({ ...spec, onLine: (line) => output.print(describeLogLine(spec.name, line)) });
  }
  return roles;
}

function addressOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

async function applyExamples({ output }: RunContext, cluster: StartedCluster): Promise<void> {
  try {
    const objects = await cluster.applyExamples();
    output.print(`Applied ${objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`).join(', ')}.`);
  } catch (error) {
    // A user may have changed them so that this build refuses them. The run continues without them.
    output.print(`Could not apply the examples: ${(error as Error).message}`);
  }
}

/** The kubeconfig that says where the API is; that of TEST_KUBECONFIG is the user's, so it is copied. */
async function nameApi({ state }: RunContext, { kubeconfig }: StartedCluster, url: string): Promise<string> {
  const file = state.path('cluster', 'kubeconfig');
  await writeKubeconfigWithApi(kubeconfig, file, { url, release: RELEASE });
  return file;
}

async function describeRun({
  roles,
  database,
  issuer,
}: Pick<Started, 'database' | 'issuer'> & { roles: RoleProcess[] }): Promise<Ready> {
  const apis = roles.flatMap(({ port }) => (port === undefined ? [] : [addressOf(port)]));
  const token = (role: 'owner' | 'member' | 'viewer', organization: string, lifeSeconds?: number) =>
    issuer.sign({ subject: `dev-${role}`, role, organization, lifeSeconds });
  return {
    api: apis[0] ?? '',
    apis,
    ...database.seeded,
    ownerToken: await token('owner', ORGANIZATION),
    tokens: {
      member: await token('member', ORGANIZATION),
      viewer: await token('viewer', ORGANIZATION),
      expired: await token('owner', ORGANIZATION, -3_600),
      otherOwner: await token('owner', OTHER_ORGANIZATION),
    },
    databaseUrl: database.adminUrl,
  };
}

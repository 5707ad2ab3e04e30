// The processes of the roles in a development run: their commands, environment and readiness.
import { fileURLToPath } from 'node:url';
import type { ProcessSpec } from './supervisor.ts';
import { waitFor } from './wait-for.ts';

const MAIN = fileURLToPath(new URL('../../main.ts', import.meta.url));

/** The only private destinations of callbacks in development: this machine, also over plain http. */
const LOOPBACK = '127.0.0.0/8,::1/128';

export interface RoleSettings {
  databaseUrl: string;
  encryptionKeys: string;
  issuers: readonly object[];
  minimumIntervalSeconds: number;
  logLevel: string;
  /** Address of the first api. */
  publicUrl: string;
}

export interface OperatorSettings {
  kubeconfig: string;
  tokenFile: string;
  namespace: string;
}

export interface RoleProcess {
  role: 'api' | 'sweeper' | 'operator';
  /** Counts the processes of a role, from 1. */
  number: number;
  /** Of `/livez`, `/readyz` and `/metrics`. */
  healthPort: number;
  /** The public port of an api; other roles have none. */
  port?: number;
}

/** Describes the process of a role. `base` is the environment that all processes of the run share. */
export function roleSpec(
  process_: RoleProcess,
  base: NodeJS.ProcessEnv,
  settings: RoleSettings,
  operator?: OperatorSettings,
): ProcessSpec {
  const { role, number } = process_;
  return {
    name: `${role}-${number}`,
    role,
    command: process.execPath,
    args: [MAIN, role],
    options: {},
    env: { ...base, ...roleEnvironment(process_, settings, operator) },
    health: `http://127.0.0.1:${process_.healthPort}`,
    endSignal: 'SIGTERM',
    endMs: 4_500,
  };
}

function roleEnvironment(
  { role, number, healthPort, port }: RoleProcess,
  settings: RoleSettings,
  operator?: OperatorSettings,
): NodeJS.ProcessEnv {
  const common = {
    HOST: '127.0.0.1',
    BEATKEEPER_HEALTH_PORT: String(healthPort),
    BEATKEEPER_LOG_LEVEL: settings.logLevel,
  };
  if (role === 'operator') {
    return {
      ...common,
      BEATKEEPER_API_URL: settings.publicUrl,
      BEATKEEPER_TOKEN_FILE: operator?.tokenFile,
      KUBECONFIG: operator?.kubeconfig,
      POD_NAMESPACE: operator?.namespace,
      BEATKEEPER_DEFAULT_CALLBACK_NAMESPACES: 'default',
    };
  }
  return {
    ...common,
    DATABASE_URL: settings.databaseUrl,
    BEATKEEPER_ENCRYPTION_KEYS: settings.encryptionKeys,
    BEATKEEPER_PUBLIC_URL: settings.publicUrl,
    BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS: LOOPBACK,
    BEATKEEPER_MINIMUM_INTERVAL_SECONDS: String(settings.minimumIntervalSeconds),
    ...(role === 'api'
      ? {
          PORT: String(port),
          // The ports of further ones may be others in the next run.
          INSTANCE_NAME: `api-${number}`,
          BEATKEEPER_ISSUERS: JSON.stringify(settings.issuers),
          BEATKEEPER_DRAIN_SECONDS: '0',
        }
      : {}),
  };
}

/** Resolves when `/readyz` of the process answers 200. */
export async function waitForRole(
  { role, number, healthPort }: RoleProcess,
  signal: AbortSignal,
): Promise<void> {
  const probe = async () => {
    const address = `http://127.0.0.1:${healthPort}/readyz`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(3_000) });
    const report = await answer.text();
    if (!answer.ok) throw new Error(report.trim());
    return true;
  };
  await waitFor(probe, { what: `${role} ${number} is ready`, timeoutMs: 120_000, intervalMs: 50, signal });
}

// The settings that a user may pass to the roles; the run decides all others itself.
const PASSED = new Set([
  'BEATKEEPER_DATABASE_POOL',
  'BEATKEEPER_DASHBOARD_ORIGIN',
  'BEATKEEPER_LAST_BEAT_PERIOD_SECONDS',
  'BEATKEEPER_MAX_CONNECTIONS',
  'BEATKEEPER_MONITOR_METRICS_MAX',
  'BEATKEEPER_PLANS',
]);
const OWN = /^(BEATKEEPER_.*|DATABASE_URL.*|PORT|HOST|KUBECONFIG|PG[A-Z]+)$/;

/** The environment of every process of a run: the user's, without the settings that the run decides itself. */
export function baseEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PASSED.has(name) || !OWN.test(name)));
}

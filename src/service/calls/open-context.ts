// Opens what use cases work with: databases, keys, allowed destinations. Each process has one.
import { type Relay, requireUsableRelay } from '../../delivery/relay/relay.ts';
import { parseAllowedDestinations } from '../../delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../delivery/webhook/name-resolver.ts';
import { catalogueOf, type PlanOverrides } from '../../domain/plan.ts';
import { PlaceChecks } from '../../store/directory/place-checks.ts';
import { openDatabases, type PlaceOptions } from '../../store/postgres/databases.ts';
import type { PoolOptions } from '../../store/postgres/pool.ts';
import { type EncryptionKey, SecretBox } from '../../store/postgres/secret-box.ts';
import type { ServiceContext } from './context.ts';

export interface ContextSettings {
  databaseUrl: string;
  /** Most connections to Postgres. */
  databasePool: number;
  /** The jurisdictions with a database of their own; default: none. */
  places?: readonly PlaceOptions[];
  /** As in `PoolOptions`; tests, which run on any machine, wait longer. */
  connectTimeoutMs?: number;
  encryptionKeys: readonly EncryptionKey[];
  /** CIDRs and host suffixes, separated by commas. */
  allowedPrivateDestinations: string;
  /** An ntfy server; without it there are no endpoints of the relay kinds. */
  relayUrl?: string;
  relayToken?: string;
  relayNotifiers?: readonly string[];
  /** Default: those of the system; tests ask their own. */
  dnsServers?: readonly string[];
  publicUrl: string;
  minimumIntervalSeconds: number;
  /** What the installation changes of the catalogue of plans; default: nothing. */
  plans?: PlanOverrides;
}

/** Connects to nothing yet. Close it by ending its databases. Throws for invalid keys or destinations, and for a relay that cannot be used. */
export function openContext(
  settings: ContextSettings,
  applicationName: string,
  options: Pick<PoolOptions, 'onError' | 'idleInTransactionMs'> = {},
): ServiceContext {
  const relay = relayOf(settings);
  return {
    databases: openDatabases(
      {
        databaseUrl: settings.databaseUrl,
        size: settings.databasePool,
        connectTimeoutMs: settings.connectTimeoutMs,
        applicationName,
        ...options,
      },
      settings.places,
    ),
    secrets: new SecretBox(settings.encryptionKeys),
    destinations: {
      allowed: parseAllowedDestinations(settings.allowedPrivateDestinations),
      resolver: createNameResolver({ servers: settings.dnsServers }),
    },
    relay,
    publicUrl: settings.publicUrl.replace(/\/+$/, ''),
    minimumIntervalSeconds: settings.minimumIntervalSeconds,
    findPlan: catalogueOf(settings.plans ?? {}),
  };
}

/** Begins to find out which places this process may use: until then their gates are closed. Stop it before the databases end. */
export function checkPlaces(
  { databaseUrl, connectTimeoutMs }: Pick<ContextSettings, 'databaseUrl' | 'connectTimeoutMs'>,
  { databases, secrets }: Pick<ServiceContext, 'databases' | 'secrets'>,
  onError: (error: Error) => void,
): PlaceChecks {
  return new PlaceChecks({ databaseUrl, places: databases.places, secrets, connectTimeoutMs, onError });
}

function relayOf({ relayUrl: url, relayToken: token, relayNotifiers }: ContextSettings): Relay | undefined {
  if (url === undefined) return undefined;
  requireUsableRelay({ url });
  return { url, token, notifiers: relayNotifiers ?? [] };
}

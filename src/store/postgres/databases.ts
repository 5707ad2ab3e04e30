// The databases of an installation: the default one, and one for each jurisdiction that has its own.
import { JURISDICTIONS, type Jurisdiction } from '../../domain/monitor.ts';
import { Gate } from './gate.ts';
import { openPool, type Pool, type PoolOptions } from './pool.ts';
import { PROBE_LIMIT_MS, Reachability } from './reachability.ts';

/** A database of one jurisdiction alone. */
export interface Place {
  jurisdiction: Jurisdiction;
  pool: Pool;
}

export interface PlaceOptions {
  jurisdiction: Jurisdiction;
  databaseUrl: string;
}

/** A place, as this process has opened it. */
export interface OwnHome extends Place, PlaceOptions, Home {
  gate: Gate;
}

/** A database that may have monitors. */
export interface Home {
  /** Whose monitors it has. Empty: the default database where each jurisdiction has a place. */
  jurisdictions: readonly Jurisdiction[];
  pool: Pool;
  reachability: Reachability;
  /** Of a place: closed until somebody knows that it belongs to this installation. */
  gate?: Gate;
}

/** Whoever works on a monitor asks by its jurisdiction, and does so before a transaction opens. */
export interface Databases {
  /** For what is in no jurisdiction: organizations, projects, credentials. It has the monitors of jurisdictions without a place. */
  readonly default: Pool;
  /** Empty: all monitors are in the default database. */
  readonly places: readonly OwnHome[];
  /** Each of them, the default one first. It may have deliveries, and no monitors: tests of endpoints. */
  readonly homes: readonly [Home, ...Home[]];
  /** Undefined: the default database. */
  of(jurisdiction: Jurisdiction | undefined): Pool;
  /** Closes all connections. */
  end(): Promise<void>;
}

/** Connects to nothing yet. Each database has a pool of its own, so that one that hangs takes no connection of another. */
export function openDatabases(options: PoolOptions, placeOptions: readonly PlaceOptions[] = []): Databases {
  const open = (jurisdictions: readonly Jurisdiction[], databaseUrl: string, gate?: Gate): Home => ({
    jurisdictions,
    pool: openPool({ ...options, databaseUrl, gate }),
    reachability: new Reachability(() => openProbe({ ...options, databaseUrl })),
  });
  const own = new Set(placeOptions.map(({ jurisdiction }) => jurisdiction));
  const shared = JURISDICTIONS.filter((jurisdiction) => !own.has(jurisdiction));
  const first = open(shared, options.databaseUrl);
  const places = placeOptions.map(({ jurisdiction, databaseUrl }): OwnHome => {
    const gate = new Gate(
      `Nobody has looked yet whose database that of the jurisdiction ${jurisdiction} is.`,
    );
    return { ...open([jurisdiction], databaseUrl, gate), jurisdiction, databaseUrl, gate };
  });
  const poolOf = new Map(places.map(({ jurisdiction, pool }) => [jurisdiction, pool]));
  const homes: [Home, ...Home[]] = [first, ...places];
  return {
    default: first.pool,
    places,
    homes,
    of: (jurisdiction) => (jurisdiction && poolOf.get(jurisdiction)) ?? first.pool,
    end: async () => {
      await Promise.all(homes.flatMap(({ pool, reachability }) => [pool.end(), reachability.end()]));
    },
  };
}

function openProbe(options: PoolOptions): Pool {
  const limits = { statementTimeoutMs: PROBE_LIMIT_MS, connectTimeoutMs: PROBE_LIMIT_MS };
  return openPool({ ...options, ...limits, size: 1 });
}

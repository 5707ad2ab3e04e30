// Opens the gate of a place once the database is known to be the installation's own and fit for use, and closes it where that
// changes (docs/adr/0013). Each process looks for itself, with connections of its own.
import { setTimeout as delay } from 'node:timers/promises';
import { codeOf, SQLSTATE } from '../postgres/database-error.ts';
import { findDurabilityFault, findSchemaFault } from '../postgres/database-faults.ts';
import type { OwnHome, Place } from '../postgres/databases.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Gate } from '../postgres/gate.ts';
import { openPool, type Pool } from '../postgres/pool.ts';
import type { SecretBox } from '../postgres/secret-box.ts';
import { NO_PLACES_ON_CITUS, PlaceRefused, verifyPlace } from './whose-place.ts';

/** Between two looks at a place that is not used, and at one that is. */
const CLOSED_MS = 1_000;
const OPEN_MS = 10_000;
const STATEMENT_MS = 2_000;

export interface PlaceCheckOptions {
  /** The default database. */
  databaseUrl: string;
  places: readonly Pick<OwnHome, 'jurisdiction' | 'databaseUrl' | 'gate'>[];
  secrets: SecretBox;
  connectTimeoutMs?: number;
  onError?: (error: Error) => void;
}

interface CheckedPlace extends Place {
  gate: Gate;
}

export class PlaceChecks {
  readonly #source: Pool | undefined;
  readonly #places: readonly CheckedPlace[];
  readonly #secrets: SecretBox;
  #installationId: string | undefined;
  readonly #stopped = new AbortController();
  readonly #first: readonly Promise<void>[];
  readonly #running: readonly Promise<void>[];

  /** Looks at once, and again and again until it is stopped. Connects to nothing where there are no places. */
  constructor({ databaseUrl, places, secrets, connectTimeoutMs, onError }: PlaceCheckOptions) {
    const open = (url: string) =>
      openPool({
        databaseUrl: url,
        size: 1,
        applicationName: 'beatkeeper-places',
        statementTimeoutMs: STATEMENT_MS,
        connectTimeoutMs,
        onError,
      });
    this.#secrets = secrets;
    this.#source = places.length === 0 ? undefined : open(databaseUrl);
    this.#places = places.map((place) => ({
      jurisdiction: place.jurisdiction,
      gate: place.gate,
      pool: open(place.databaseUrl),
    }));
    this.#first = this.#places.map((place) => this.#look(place));
    this.#running = this.#places.map((place, index) => this.#run(place, this.#first[index]));
  }

  /** Resolves after the first look at each place, which takes seconds at most. Never rejects. */
  async looked(): Promise<void> {
    await Promise.all(this.#first);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all(this.#running);
    await Promise.all([this.#source?.end(), ...this.#places.map(({ pool }) => pool.end())]);
  }

  async #run(place: CheckedPlace, first: Promise<void> | undefined): Promise<void> {
    const { signal } = this.#stopped;
    await first;
    while (!signal.aborted) {
      const pauseMs = place.gate.fault === undefined ? OPEN_MS : CLOSED_MS;
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) await this.#look(place);
    }
  }

  /** Never rejects. A database that does not answer changes nothing: one that was known goes on. */
  async #look({ gate, ...place }: CheckedPlace): Promise<void> {
    try {
      const fault = await this.#findFault(place);
      if (fault === undefined) gate.open();
      else gate.close(fault);
    } catch (error) {
      if (gate.fault === undefined) return;
      const { message } = error as Error;
      gate.close(`The database of the jurisdiction ${place.jurisdiction} is not known yet: ${message}`);
    }
  }

  /** On a new connection: one of before does not see a setting of the database that has changed since. */
  async #findFault({ jurisdiction, pool }: Place): Promise<string | undefined> {
    if (isDistributed()) return NO_PLACES_ON_CITUS;
    const installationId = await this.#findInstallation();
    const connection = await pool.connect();
    try {
      await verifyPlace({ jurisdiction, pool: connection }, this.#secrets, installationId);
      return await findDurabilityFault(connection);
    } catch (error) {
      if (error instanceof PlaceRefused) return error.message;
      const fault = codeOf(error) === SQLSTATE.undefinedTable && (await findSchemaFault(connection));
      if (fault) return fault;
      throw error;
    } finally {
      connection.release(true);
    }
  }

  /** Undefined while the default database has not said it yet. */
  async #findInstallation(): Promise<string | undefined> {
    const read = this.#source?.query<{ id: string }>('select installation_id as id from installation');
    // One that is away now has perhaps answered before.
    const found = await read?.catch(() => undefined);
    this.#installationId = found?.rows[0]?.id ?? this.#installationId;
    return this.#installationId;
  }
}

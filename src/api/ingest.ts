// Puts the beat path (src/ingest) together for this process: directory, lanes, batcher, metrics, addresses; each database
// has its own.
import type { FastifyInstance } from 'fastify';
import { Counter, Gauge } from 'prom-client';
import type { Jurisdiction } from '../domain/monitor.ts';
import { ArrivalProbe } from '../ingest/arrival-probe.ts';
import { Batcher } from '../ingest/batcher.ts';
import { ExcuseWriter } from '../ingest/excuse-writer.ts';
import { type BeatHome, HomeBeats } from '../ingest/home-beats.ts';
import { Lane } from '../ingest/lane.ts';
import { MonitorDirectory } from '../ingest/monitor-directory.ts';
import { OpenBeats } from '../ingest/open-beats.ts';
import { registerPing } from '../ingest/ping-routes.ts';
import { type Arrivals, shareArrivals } from '../ingest/shared-arrivals.ts';
import type { ServiceContext } from '../service/calls/context.ts';
import type { ContextSettings } from '../service/calls/open-context.ts';
import type { PlaceOptions } from '../store/postgres/databases.ts';
import { isDistributed } from '../store/postgres/engine.ts';
import type { Gate } from '../store/postgres/gate.ts';
import { openPool } from '../store/postgres/pool.ts';
import { OccasionalWarning } from '../telemetry/occasional-warning.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { readUpToAt, waitedMs } from './http/server.ts';

/** The second one works only while commits are slow. */
const LANES = 2;
/** Each one writes to another shard. */
const LANES_OF_SHARDS = 8;
/** Of a look-up of addresses and its connection: short, so that a beat can still be written after one that hung. */
const LOOKUP_MS = { statement: 1_000, connect: 2_000 };

/** What the service clock of one database waits for. */
export interface IngestClock {
  databaseUrl: string;
  /** That has the database to itself. */
  jurisdiction?: Jurisdiction;
  /** As in `PoolOptions`. */
  gate?: Gate;
  /** The beats that are neither committed nor answered nor excused. */
  openBeats: OpenBeats;
  /** Up to when everything that has arrived is read. */
  arrivals: Arrivals;
}

export interface Ingest {
  /** Registers the addresses on the application. */
  mount: (app: FastifyInstance) => void;
  /** Connects and loads addresses, so that the first beats need not wait. Never rejects; bounded in time. */
  prepare(): Promise<void>;
  /** One for each database. */
  clocks: readonly IngestClock[];
  /** Writes what waits, beats and excuses. Call it when the application is closed. */
  close(): Promise<void>;
}

type IngestSettings = Pick<ContextSettings, 'databaseUrl' | 'connectTimeoutMs' | 'places'>;
type IngestContext = Pick<ServiceContext, 'databases' | 'minimumIntervalSeconds' | 'findPlan'>;

export function startIngest(settings: IngestSettings, context: IngestContext, telemetry: Telemetry): Ingest {
  const { log, registry } = telemetry;
  const { databaseUrl, connectTimeoutMs, places = [] } = settings;
  const excused = new Counter({
    name: 'beatkeeper_beats_excused_total',
    help: 'Refused beats that do not count as silence any more.',
    registers: [registry],
  });
  const onExcused = (count: number) => excused.inc(count);
  const start = (database: Pick<PlaceOptions, 'databaseUrl'> & Partial<PlaceOptions>, home?: number) => {
    const gate = context.databases.homes[home ?? 0]?.gate;
    const options = { databaseUrl: database.databaseUrl, gate, connectTimeoutMs, home, onExcused };
    return { ...database, gate, ...startHome(options, context, log) };
  };
  const first = start({ databaseUrl }, places.length === 0 ? undefined : 0);
  const homes = [first, ...places.map((place, index) => start(place, index + 1))];
  const beats = new Counter({
    name: 'beatkeeper_beats_total',
    help: 'Beats by outcome: accepted, or the code of the refusal.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  beats.inc({ outcome: 'temporarily_unavailable' }, 0); // so that `increase` counts the first one
  measure(homes, telemetry);
  const arrivals = new ArrivalProbe((fromAt, toAt) => {
    for (const { openBeats } of homes) openBeats.lose(fromAt, toAt);
  });
  const shared = shareArrivals(arrivals, homes.length);
  const onOutcome = (outcome: string) => beats.inc({ outcome });
  return {
    mount: (app) => {
      arrivals.watch(app.server, () => readUpToAt(app.server));
      const all = homes.length === 1 ? undefined : new HomeBeats(homes);
      const path = all ? { directory: all, batcher: all, openBeats: all } : first;
      registerPing(app, { ...path, waitedMs, onOutcome });
    },
    clocks: homes.map(({ databaseUrl: url, jurisdiction, gate, openBeats }, index) => ({
      databaseUrl: url,
      jurisdiction,
      gate,
      openBeats,
      arrivals: shared[index] ?? arrivals,
    })),
    prepare: async () => {
      await Promise.all(homes.map((home) => home.prepare()));
    },
    close: async () => {
      arrivals.stop();
      await Promise.all(homes.map((home) => home.close()));
    },
  };
}

interface HomeOptions extends Pick<ContextSettings, 'databaseUrl' | 'connectTimeoutMs'> {
  /** As in `PoolOptions`. */
  gate?: Gate;
  /** As in `DirectoryOptions`. */
  home?: number;
  onExcused: (beats: number) => void;
}

interface StartedHome extends BeatHome {
  prepare(): Promise<void>;
  close(): Promise<void>;
}

function startHome(
  { databaseUrl, gate, connectTimeoutMs = LOOKUP_MS.connect, home, onExcused }: HomeOptions,
  { minimumIntervalSeconds, findPlan }: Omit<IngestContext, 'databases'>,
  log: Telemetry['log'],
): StartedHome {
  // Its own connection: those of the pool may all be busy, or dead without a sign.
  const addresses = openPool({
    databaseUrl,
    size: 1,
    applicationName: 'beatkeeper-addresses',
    statementTimeoutMs: LOOKUP_MS.statement,
    connectTimeoutMs,
    gate,
    onError: (err) => log.warn({ err }, 'A connection to the database broke.'),
  });
  const unread = new OccasionalWarning(log, 'Addresses of beats could not be looked up.');
  const directory = new MonitorDirectory({
    db: addresses,
    home,
    minimumIntervalMs: minimumIntervalSeconds * 1_000,
    findPlan,
    onError: (err) => unread.record({ err }),
  });
  const unwritten = new OccasionalWarning(log, 'A batch of beats could not be written.');
  const lanes = Array.from(
    { length: isDistributed() ? LANES_OF_SHARDS : LANES },
    () => new Lane(databaseUrl, gate),
  );
  const batcher = new Batcher({ directory, lanes, onError: (err) => unwritten.record({ err }) });
  const { openBeats, closeExcuses } = startExcuses(new Lane(databaseUrl, gate), log, onExcused);
  return {
    directory,
    batcher,
    openBeats,
    prepare: async () => {
      directory.tenants.start();
      // A lane that can't connect yet connects with its first batch.
      await Promise.allSettled([directory.preload(), ...lanes.map((lane) => lane.connect())]);
    },
    close: async () => {
      directory.tenants.stop();
      await batcher.close();
      await closeExcuses();
      await addresses.end();
    },
  };
}

function startExcuses(lane: Lane, log: Telemetry['log'], onExcused: (beats: number) => void) {
  const openBeats = new OpenBeats();
  const unwritten = new OccasionalWarning(log, 'Excuses of refused beats could not be written.');
  const writer = new ExcuseWriter({
    openBeats,
    lane,
    onWritten: onExcused,
    onError: (err) => unwritten.record({ err }),
  });
  const closeExcuses = async () => {
    const addresses = await writer.close();
    if (addresses > 0)
      log.warn({ addresses }, 'The process ends with excuses that are not written: it is an outage.');
  };
  return { openBeats, closeExcuses };
}

function measure(homes: readonly BeatHome[], { registry }: Pick<Telemetry, 'registry'>): void {
  const sum = (of: (home: BeatHome) => number) => homes.reduce((total, home) => total + of(home), 0);
  new Gauge({
    name: 'beatkeeper_beats_queued',
    help: 'Beats that wait for their batch.',
    registers: [registry],
    collect() {
      this.set(sum(({ batcher }) => batcher.queued));
    },
  });
  new Gauge({
    name: 'beatkeeper_excuses_waiting',
    help: 'Addresses with refused beats that the database does not know of yet.',
    registers: [registry],
    collect() {
      this.set(sum(({ openBeats }) => openBeats.excuses));
    },
  });
}

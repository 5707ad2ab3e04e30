// Puts the beat path (src/ingest) together for this process: directory, lanes, batcher, metrics, addresses.
import type { FastifyInstance } from 'fastify';
import { Counter, Gauge } from 'prom-client';
import { ArrivalProbe } from '../ingest/arrival-probe.ts';
import { Batcher } from '../ingest/batcher.ts';
import { ExcuseWriter } from '../ingest/excuse-writer.ts';
import { Lane } from '../ingest/lane.ts';
import { MonitorDirectory } from '../ingest/monitor-directory.ts';
import { OpenBeats } from '../ingest/open-beats.ts';
import { registerPing } from '../ingest/ping-routes.ts';
import type { ServiceContext } from '../service/calls/context.ts';
import type { ContextSettings } from '../service/calls/open-context.ts';
import { isDistributed } from '../store/postgres/engine.ts';
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

export interface Ingest {
  /** Registers the addresses on the application. */
  mount: (app: FastifyInstance) => void;
  /** Connects and loads addresses, so that the first beats need not wait. Never rejects; bounded in time. */
  prepare(): Promise<void>;
  /** The beats that are neither committed nor answered nor excused: the service clock waits for them. */
  openBeats: OpenBeats;
  /** Up to when everything that has arrived is read. */
  arrivals: ArrivalProbe;
  /** Writes what waits, beats and excuses. Call it when the application is closed. */
  close(): Promise<void>;
}

export function startIngest(
  {
    databaseUrl,
    connectTimeoutMs = LOOKUP_MS.connect,
  }: Pick<ContextSettings, 'databaseUrl' | 'connectTimeoutMs'>,
  { minimumIntervalSeconds, findPlan }: Pick<ServiceContext, 'minimumIntervalSeconds' | 'findPlan'>,
  { log, registry }: Telemetry,
): Ingest {
  // Its own connection: those of the pool may all be busy, or dead without a sign.
  const addresses = openPool({
    databaseUrl,
    size: 1,
    applicationName: 'beatkeeper-addresses',
    statementTimeoutMs: LOOKUP_MS.statement,
    connectTimeoutMs,
    onError: (err) => log.warn({ err }, 'A connection to the database broke.'),
  });
  const unread = new OccasionalWarning(log, 'Addresses of beats could not be looked up.');
  const directory = new MonitorDirectory({
    db: addresses,
    minimumIntervalMs: minimumIntervalSeconds * 1_000,
    findPlan,
    onError: (err) => unread.record({ err }),
  });
  const unwritten = new OccasionalWarning(log, 'A batch of beats could not be written.');
  const lanes = Array.from(
    { length: isDistributed() ? LANES_OF_SHARDS : LANES },
    () => new Lane(databaseUrl),
  );
  const batcher = new Batcher({ directory, lanes, onError: (err) => unwritten.record({ err }) });
  const { openBeats, closeExcuses } = startExcuses(databaseUrl, { log, registry });
  const beats = new Counter({
    name: 'beatkeeper_beats_total',
    help: 'Beats by outcome: accepted, or the code of the refusal.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  beats.inc({ outcome: 'temporarily_unavailable' }, 0); // so that `increase` counts the first one
  new Gauge({
    name: 'beatkeeper_beats_queued',
    help: 'Beats that wait for their batch.',
    registers: [registry],
    collect() {
      this.set(batcher.queued);
    },
  });
  const arrivals = new ArrivalProbe((fromAt, toAt) => openBeats.lose(fromAt, toAt));
  const onOutcome = (outcome: string) => beats.inc({ outcome });
  return {
    mount: (app) => {
      arrivals.watch(app.server, () => readUpToAt(app.server));
      registerPing(app, { directory, batcher, openBeats, waitedMs, onOutcome });
    },
    openBeats,
    arrivals,
    prepare: async () => {
      directory.tenants.start();
      // A lane that can't connect yet connects with its first batch.
      await Promise.allSettled([directory.preload(), ...lanes.map((lane) => lane.connect())]);
    },
    close: async () => {
      arrivals.stop();
      directory.tenants.stop();
      await batcher.close();
      await closeExcuses();
      await addresses.end();
    },
  };
}

function startExcuses(databaseUrl: string, { log, registry }: Pick<Telemetry, 'log' | 'registry'>) {
  const openBeats = new OpenBeats();
  const excused = new Counter({
    name: 'beatkeeper_beats_excused_total',
    help: 'Refused beats that do not count as silence any more.',
    registers: [registry],
  });
  new Gauge({
    name: 'beatkeeper_excuses_waiting',
    help: 'Addresses with refused beats that the database does not know of yet.',
    registers: [registry],
    collect() {
      this.set(openBeats.excuses);
    },
  });
  const unwritten = new OccasionalWarning(log, 'Excuses of refused beats could not be written.');
  const writer = new ExcuseWriter({
    openBeats,
    lane: new Lane(databaseUrl),
    onWritten: (beats) => excused.inc(beats),
    onError: (err) => unwritten.record({ err }),
  });
  const closeExcuses = async () => {
    const addresses = await writer.close();
    if (addresses > 0)
      log.warn({ addresses }, 'The process ends with excuses that are not written: it is an outage.');
  };
  return { openBeats, closeExcuses };
}

// Puts the beat path (src/ingest) together for this process: directory, lanes, batcher, metrics, addresses.
import type { FastifyInstance } from 'fastify';
import { Counter, Gauge } from 'prom-client';
import { Batcher } from '../ingest/batcher.ts';
import { Lane } from '../ingest/lane.ts';
import { MonitorDirectory } from '../ingest/monitor-directory.ts';
import { registerPing } from '../ingest/ping-routes.ts';
import type { ServiceContext } from '../service/context.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';

/** The second one works only while commits are slow. */
const LANES = 2;

export interface Ingest {
  /** Registers the addresses on the application. */
  mount: (app: FastifyInstance) => void;
  /** Writes what waits. Call it when the application is closed. */
  close(): Promise<void>;
}

export function startIngest(
  { databaseUrl }: { databaseUrl: string },
  { pool, minimumIntervalSeconds }: ServiceContext,
  { log, registry }: Telemetry,
): Ingest {
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: minimumIntervalSeconds * 1_000 });
  const batcher = new Batcher({
    directory,
    lanes: Array.from({ length: LANES }, () => new Lane(databaseUrl)),
    onError: (err) => log.warn({ err }, 'A batch of beats could not be written.'),
  });
  const beats = new Counter({
    name: 'beatkeeper_beats_total',
    help: 'Beats by outcome: accepted, or the code of the refusal.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  new Gauge({
    name: 'beatkeeper_beats_queued',
    help: 'Beats that wait for their batch.',
    registers: [registry],
    collect() {
      this.set(batcher.queued);
    },
  });
  return {
    mount: (app) => registerPing(app, { directory, batcher, onOutcome: (outcome) => beats.inc({ outcome }) }),
    close: () => batcher.close(),
  };
}

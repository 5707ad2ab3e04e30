// The HTTP application of the api with one of three ways to keep a beat: the product's batches, one transaction per beat,
// or no database at all. Arguments: database URL, way. Prints its port.
import type { AddressInfo } from 'node:net';
import { buildApp } from '../src/api/app.ts';
import type { BeatItem, BeatOutcome } from '../src/ingest/apply-items.ts';
import { Batcher } from '../src/ingest/batcher.ts';
import { Lane } from '../src/ingest/lane.ts';
import { MonitorDirectory } from '../src/ingest/monitor-directory.ts';
import { OpenBeats } from '../src/ingest/open-beats.ts';
import { registerPing } from '../src/ingest/ping-routes.ts';
import { runPlainBeats } from '../src/ingest/plain-beats.ts';
import { openContext } from '../src/service/calls/open-context.ts';
import { createTelemetry } from '../src/telemetry/telemetry.ts';
import { makeConfig } from '../test/support/make-config.ts';

const [databaseUrl = '', way = 'batches'] = process.argv.slice(2);
const TRANSACTIONS_AT_ONCE = 32;

const telemetry = createTelemetry({ role: 'bench', logLevel: 'error' });
const context = openContext(makeConfig(databaseUrl, { databasePool: 4 }), 'bench');
const directory = new MonitorDirectory({ db: context.databases.default, minimumIntervalMs: 60_000 });

type Submit = (item: BeatItem) => Promise<BeatOutcome>;

function inBatches(): Submit {
  const batcher = new Batcher({ directory, lanes: [new Lane(databaseUrl), new Lane(databaseUrl)] });
  return (item) => batcher.submit(item);
}

/** Runs the statement of a batch for each beat alone, on as many connections as a pool would have. */
function oneByOne(): Submit {
  const idle = Array.from({ length: TRANSACTIONS_AT_ONCE }, () => new Lane(databaseUrl));
  const waiting: ((lane: Lane) => void)[] = [];
  return async (item) => {
    const lane = idle.pop() ?? (await new Promise<Lane>((resolve) => waiting.push(resolve)));
    const [outcome] = await lane.write((connection, of) => runPlainBeats(connection, [item], of));
    const next = waiting.shift();
    if (next) next(lane);
    else idle.push(lane);
    if (outcome === undefined || outcome === 'ineligible') throw new Error('The beat is not plain.');
    return outcome;
  };
}

function withoutDatabase(): Submit {
  let sequence = 0;
  return async ({ entry }) => {
    sequence += 1;
    return {
      answer: { monitorId: entry.monitor.monitorId, sequence, receivedAt: new Date().toISOString() },
    };
  };
}

const ways: Record<string, () => Submit> = {
  batches: inBatches,
  'one-by-one': oneByOne,
  'no-database': withoutDatabase,
};
const make = ways[way];
if (!make) throw new Error(`There is no way ${way}. Use one of ${Object.keys(ways).join(', ')}.`);
const submit = make();
const app = await buildApp({
  context,
  telemetry,
  issuers: [],
  mount: (server) => registerPing(server, { directory, batcher: { submit }, openBeats: new OpenBeats() }),
});
await app.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 });
console.log((app.server.address() as AddressInfo).port);
process.once('SIGINT', () => process.exit(0));

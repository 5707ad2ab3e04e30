// `npm run bench`: runs every benchmark behind the README's figures, or the named ones: `npm run bench -- deadlines
// deliveries`. `--short`, for CI: the quick benchmarks, with fewer and shorter pairs.
import { measureAlerts } from './alerts.ts';
import { measureClaims } from './claims.ts';
import { measureCreates } from './creates.ts';
import { measureDeadlines } from './deadlines.ts';
import { measureDeliveries } from './deliveries.ts';
import { type Environment, startEnvironment, VoidMeasurement } from './environment.ts';
import { measureIdlePoll } from './idle-poll.ts';
import { measureNeighbours } from './neighbours.ts';
import { measurePingThroughput } from './ping-throughput.ts';
import { measureSlowCommits } from './slow-commits.ts';

// The log of the product's parts shows their errors.
process.env.TEST_LOG_LEVEL ??= 'error';
const isShort = process.argv.includes('--short');

/** Each starts on a new database. */
const measurements: Record<string, (environment: Environment) => Promise<void>> = {
  ping: (environment) =>
    measurePingThroughput(environment, isShort ? { pairs: 2, seconds: 2 } : { pairs: 5, seconds: 4 }),
  'slow-commits': (environment) => measureSlowCommits(environment, { pairs: 5, seconds: isShort ? 2 : 4 }),
  deliveries: (environment) => measureDeliveries(environment, { pairs: isShort ? 2 : 5 }),
  claims: (environment) => measureClaims(environment, { pairs: isShort ? 2 : 5 }),
  alerts: (environment) => measureAlerts(environment, { pairs: isShort ? 1 : 3 }),
  neighbours: (environment) => measureNeighbours(environment, { pairs: isShort ? 1 : 2 }),
  creates: (environment) =>
    measureCreates(environment, isShort ? { pairs: 2, seconds: 2 } : { pairs: 5, seconds: 4 }),
  'idle-poll': (environment) => measureIdlePoll(environment, { pairs: 5 }),
  deadlines: (environment) => measureDeadlines(environment, { pairs: isShort ? 2 : 5 }),
};

/** Each takes less than twenty seconds. */
const SHORT = ['ping', 'deliveries', 'creates', 'deadlines'];

const named = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const all = isShort ? SHORT : Object.keys(measurements);
for (const name of named.length > 0 ? named : all) {
  const measure = measurements[name];
  if (!measure)
    throw new Error(`There is no benchmark ${name}. Name some of ${Object.keys(measurements).join(', ')}.`);
  const environment = await startEnvironment();
  try {
    await measure(environment);
  } catch (error) {
    if (!(error instanceof VoidMeasurement)) throw error;
    console.log(
      `\n### ${name}\n\nVoid: ${error.message} Run it again while the machine has nothing else to do.`,
    );
  } finally {
    await environment.close();
  }
}

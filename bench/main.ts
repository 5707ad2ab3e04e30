// `npm run bench`: every measurement that the README's figures come from, or those that are named: `npm run bench --
// deadlines deliveries`. `--short`: fewer and shorter pairs, for CI, of those that take little.
import { measureAlerts } from './alerts.ts';
import { measureCreates } from './creates.ts';
import { measureDeadlines } from './deadlines.ts';
import { measureDeliveries } from './deliveries.ts';
import { type Environment, startEnvironment } from './environment.ts';
import { measureIdleTick } from './idle-tick.ts';
import { measurePingThroughput } from './ping-throughput.ts';
import { measureSlowCommits } from './slow-commits.ts';
import { VoidMeasurement } from './void-measurement.ts';

// A fault in the parts of the product shows.
process.env.TEST_LOG_LEVEL ??= 'error';
const isShort = process.argv.includes('--short');

/** Each begins with a database of its own. */
const measurements: Record<string, (environment: Environment) => Promise<void>> = {
  ping: (environment) =>
    measurePingThroughput(environment, isShort ? { pairs: 2, seconds: 2 } : { pairs: 5, seconds: 4 }),
  'slow-commits': (environment) => measureSlowCommits(environment, { pairs: 5, seconds: isShort ? 2 : 4 }),
  deliveries: (environment) => measureDeliveries(environment, { pairs: isShort ? 2 : 5 }),
  alerts: (environment) => measureAlerts(environment, { pairs: isShort ? 1 : 3 }),
  creates: (environment) =>
    measureCreates(environment, isShort ? { pairs: 2, seconds: 2 } : { pairs: 5, seconds: 4 }),
  'idle-tick': (environment) => measureIdleTick(environment, { pairs: 5 }),
  deadlines: (environment) => measureDeadlines(environment, { pairs: isShort ? 2 : 5 }),
};

/** Under twenty seconds each. */
const SHORT = ['ping', 'deliveries', 'creates', 'deadlines'];

const named = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const all = isShort ? SHORT : Object.keys(measurements);
for (const name of named.length > 0 ? named : all) {
  const measure = measurements[name];
  if (!measure)
    throw new Error(`No measurement ${name}: name some of ${Object.keys(measurements).join(', ')}.`);
  const environment = await startEnvironment();
  try {
    await measure(environment);
  } catch (error) {
    if (!(error instanceof VoidMeasurement)) throw error;
    console.log(
      `\n### ${name}\n\nVoid: ${error.message} Measure again while the machine has nothing else to do.`,
    );
  } finally {
    await environment.close();
  }
}

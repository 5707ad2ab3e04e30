// `npm run bench`: every measurement that the README's figures come from. `--short`: fewer and shorter pairs, for CI.
import { startEnvironment } from './environment.ts';
import { measurePingThroughput } from './ping-throughput.ts';

const isShort = process.argv.includes('--short');
const environment = await startEnvironment();
try {
  await measurePingThroughput(environment, isShort ? { pairs: 2, seconds: 2 } : { pairs: 5, seconds: 4 });
} finally {
  await environment.close();
}

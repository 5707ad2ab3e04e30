// The role `api` in a process of its own. Argument: database URL. Prints its port.
import { startApi } from '../src/api/start-api.ts';
import { createTelemetry } from '../src/telemetry/telemetry.ts';
import { makeConfig } from '../test/support/make-config.ts';

const [databaseUrl = ''] = process.argv.slice(2);
// A plan that no benchmark reaches: the calls are counted all the same.
const plans = { scale: { apiRequestsPerMinute: 1_000_000_000 } };
const config = makeConfig(databaseUrl, { databasePool: 10, maxConnections: 1_000, plans });
const api = await startApi(config, createTelemetry({ role: 'bench', logLevel: 'error' }));
console.log(api.port);
process.once('SIGINT', () => process.exit(0));

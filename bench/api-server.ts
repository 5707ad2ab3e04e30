// The role `api` in a process of its own. Arguments: database URL, databases of jurisdictions as JSON. Prints its port.
import { startApi } from '../src/api/start-api.ts';
import { createTelemetry } from '../src/telemetry/telemetry.ts';
import { makeConfig } from '../test/support/make-config.ts';

const [databaseUrl = '', places = '[]'] = process.argv.slice(2);
// A plan that no benchmark reaches: the calls are counted all the same.
const plans = { scale: { apiRequestsPerMinute: 1_000_000_000 } };
const sizes = { databasePool: 10, maxConnections: 1_000 };
const config = makeConfig(databaseUrl, { ...sizes, plans, places: JSON.parse(places) });
const api = await startApi(config, createTelemetry({ role: 'bench', logLevel: 'error' }));
console.log(api.port);
process.once('SIGINT', () => process.exit(0));

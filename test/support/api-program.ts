// The role `api` in a process of its own, for tests of what it needs. Arguments: database URL, and the settings of
// `makeConfig` as JSON. Sends its port; answers each message with the most memory that it has had, in bytes.
import { startApi } from '../../src/api/start-api.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { makeConfig } from './make-config.ts';

const [databaseUrl = '', settings = '{}'] = process.argv.slice(2);
const telemetry = createTelemetry({ role: 'api', logLevel: 'silent' });
const api = await startApi(makeConfig(databaseUrl, JSON.parse(settings)), telemetry);
process.on('message', () => process.send?.(process.resourceUsage().maxRSS * 1_024));
process.once('disconnect', () => process.exit(0));
process.send?.(api.port);

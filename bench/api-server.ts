// The role `api` in a process of its own. Argument: database URL. Prints its port.
import { startApi } from '../src/api/start-api.ts';
import { createTelemetry } from '../src/telemetry/telemetry.ts';

const [databaseUrl = ''] = process.argv.slice(2);
const api = await startApi(
  {
    databaseUrl,
    databasePool: 10,
    encryptionKeys: [{ id: 'bench', key: Buffer.alloc(32, 1) }],
    allowedPrivateDestinations: '',
    publicUrl: 'http://127.0.0.1',
    minimumIntervalSeconds: 60,
    host: '127.0.0.1',
    port: 0,
    issuers: [],
    maxConnections: 1_000,
    // What it sheds is another measurement's.
    maxEventLoopDelayMs: 0,
  },
  createTelemetry({ role: 'bench', logLevel: 'error' }),
);
console.log(api.port);
process.once('SIGINT', () => process.exit(0));

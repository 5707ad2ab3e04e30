// What the roles `api` and `sweeper` are started with in tests and benchmarks.
import type { ApiConfig } from '../../src/api/start-api.ts';

export const ENCRYPTION_KEY = { id: 'test', key: Buffer.alloc(32, 1) };

/** Webhooks may go to this machine; no call is shed. */
export function makeConfig(databaseUrl: string, more: Partial<ApiConfig> = {}): ApiConfig {
  return {
    databaseUrl,
    databasePool: 6,
    encryptionKeys: [ENCRYPTION_KEY],
    allowedPrivateDestinations: '127.0.0.0/8,::1/128,localhost',
    publicUrl: 'http://127.0.0.1:8080',
    minimumIntervalSeconds: 60,
    host: '127.0.0.1',
    port: 0,
    issuers: [],
    maxConnections: 10_000,
    maxEventLoopDelayMs: 0,
    ...more,
  };
}

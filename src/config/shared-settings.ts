// Settings that more than one role has, so that they are called and read the same everywhere.
import { z } from 'zod';
import { encryptionKeys } from './encryption-keys.ts';
import { baseUrl, integer, optional, postgresUrl, text, variable } from './variable.ts';

export const logLevel = () =>
  variable(
    {
      name: 'BEATKEEPER_LOG_LEVEL',
      description: 'Least level of log lines: trace, debug, info, warn, error or silent.',
      fallback: 'info',
    },
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'], 'must be a level such as info or warn'),
  );

export const databaseUrl = () =>
  variable({ name: 'DATABASE_URL', description: 'Address of the Postgres database.' }, postgresUrl);

export const databasePool = () =>
  variable(
    {
      name: 'BEATKEEPER_DATABASE_POOL',
      description: 'Most connections of this process to Postgres.',
      fallback: '10',
    },
    integer(2, 200),
  );

export const keys = () =>
  variable(
    {
      name: 'BEATKEEPER_ENCRYPTION_KEYS',
      description:
        'Keys for secrets at rest: <keyId>:<base64 of 32 bytes>,…; the first encrypts, all decrypt.',
    },
    encryptionKeys,
  );

export const healthPort = () =>
  variable(
    {
      name: 'BEATKEEPER_HEALTH_PORT',
      description: 'Port of /livez, /readyz and /metrics.',
      fallback: '8081',
    },
    integer(1, 65_535),
  );

export const host = () =>
  variable({ name: 'HOST', description: 'Address to listen on.', fallback: '0.0.0.0' }, text);

export const allowedPrivateDestinations = () =>
  variable(
    {
      name: 'BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS',
      description:
        'CIDRs and host suffixes, with commas, that callbacks may lead to though they are private.',
      fallback: '',
    },
    text,
  );

export const minimumIntervalSeconds = () =>
  variable(
    {
      name: 'BEATKEEPER_MINIMUM_INTERVAL_SECONDS',
      description: 'Floor of interval and grace; lower only in development.',
      fallback: '60',
    },
    integer(1, 60),
  );

export const publicUrl = () =>
  optional(
    {
      name: 'BEATKEEPER_PUBLIC_URL',
      description: 'Address at which senders and people reach the API. Default: http://127.0.0.1:<PORT>.',
    },
    baseUrl,
  );

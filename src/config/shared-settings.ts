// Settings of more than one role, so that they have one name and one meaning.
import { z } from 'zod';
import { BILLING_SOURCES } from '../domain/billing.ts';
import { plans as catalogue } from './plans.ts';
import { baseUrl, integer, list, optional, postgresUrl, text, variable } from './variable.ts';

export const logLevel = () =>
  variable(
    {
      name: 'BEATKEEPER_LOG_LEVEL',
      description: 'Lowest level that is logged: trace, debug, info, warn, error or silent.',
      fallback: 'info',
    },
    z.enum(
      ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
      'must be trace, debug, info, warn, error or silent',
    ),
  );

export const databaseUrl = () =>
  variable({ name: 'DATABASE_URL', description: 'Address of the Postgres database.' }, postgresUrl);

export const databaseEngine = () =>
  variable(
    {
      name: 'BEATKEEPER_DATABASE_ENGINE',
      description: 'What DATABASE_URL is: postgres, or citus for the coordinator of a Citus cluster.',
      fallback: 'postgres',
    },
    z.enum(['postgres', 'citus'], 'must be postgres or citus'),
  );

export const databasePool = () =>
  variable(
    {
      name: 'BEATKEEPER_DATABASE_POOL',
      description: 'Size of the connection pool of this process.',
      fallback: '10',
    },
    integer(2, 200),
  );

const KEY_ENTRY = /^([A-Za-z0-9_.-]{1,32}):([A-Za-z0-9+/_-]{43}=?)$/;
const KEY_RULE =
  'must be <keyId>:<base64 of 32 bytes>, or several of them with commas. To make one: ' +
  'echo "k1:$(head -c 32 /dev/urandom | base64)"';

/** Reads the keys that encrypt secrets at rest: the first encrypts, all decrypt. */
const encryptionKeys = z.string(`is missing. It ${KEY_RULE}`).transform((value, context) => {
  const keys = value.split(',').map((entry) => {
    const [, id = '', encoded = ''] = KEY_ENTRY.exec(entry.trim()) ?? [];
    return { id, key: Buffer.from(encoded, 'base64') };
  });
  if (keys.some(({ id, key }) => id === '' || key.length !== 32)) {
    context.addIssue({ code: 'custom', message: KEY_RULE });
    return z.NEVER;
  }
  if (new Set(keys.map(({ id }) => id)).size < keys.length) {
    context.addIssue({ code: 'custom', message: 'has a key id twice' });
    return z.NEVER;
  }
  return keys;
});

export const keys = () =>
  variable(
    {
      name: 'BEATKEEPER_ENCRYPTION_KEYS',
      description:
        'Keys for secrets at rest: <keyId>:<base64 of 32 bytes>,… The first encrypts, all decrypt.',
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
        'Private destinations that callbacks may use: CIDRs and host suffixes, separated by commas.',
      fallback: '',
    },
    text,
  );

export const relayUrl = () =>
  optional(
    {
      name: 'RELAY_URL',
      description:
        "Address of the messaging relay, an ntfy server, at which people's phones reach it too. Default: no relay.",
    },
    baseUrl,
  );

export const relayToken = () =>
  optional(
    {
      name: 'RELAY_TOKEN',
      description: 'Access token of the relay, which may publish to its topics bk_*. Default: none.',
    },
    text.regex(/^[\x21-\x7e]+$/, 'must be a token without blanks'),
  );

const NOTIFIER = /^\P{Cc}{1,128}$/u;

export const relayNotifiers = () =>
  variable(
    {
      name: 'RELAY_NOTIFIERS',
      description: 'The notifiers that endpoints of the relay may name, separated by commas.',
      fallback: 'ntfy',
    },
    list.refine(
      (names) => names.length > 0 && names.every((name) => NOTIFIER.test(name)),
      'must be names of 1 to 128 characters, separated by commas',
    ),
  );

export const minimumIntervalSeconds = () =>
  variable(
    {
      name: 'BEATKEEPER_MINIMUM_INTERVAL_SECONDS',
      description: 'Least interval and grace of a monitor; lower it only in development.',
      fallback: '60',
    },
    integer(1, 60),
  );

export const plans = () =>
  variable(
    {
      name: 'BEATKEEPER_PLANS',
      description:
        'What this installation changes of the plans: JSON such as {"free":{"active_monitors":50}}. The same for api and sweeper.',
      fallback: '{}',
    },
    catalogue,
  );

export const publicUrl = () =>
  optional(
    {
      name: 'BEATKEEPER_PUBLIC_URL',
      description: 'Address at which jobs and people reach the API. Default: http://127.0.0.1:<PORT>.',
    },
    baseUrl,
  );

export const billingSource = () =>
  variable(
    {
      name: 'BILLING_SOURCE',
      description:
        'Where plans and service states come from: static, the plan that migrate sets, or stripe, the events of Stripe.',
      fallback: 'static',
    },
    z.enum(BILLING_SOURCES, 'must be static or stripe'),
  );

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { apiSchema } from '../../../src/config/api-config.ts';
import { operatorSchema } from '../../../src/config/operator-config.ts';
import { ConfigError, describeConfig, listVariables, readConfig } from '../../../src/config/read-config.ts';
import { sweeperSchema } from '../../../src/config/sweeper-config.ts';

const KEY = Buffer.alloc(32, 7).toString('base64');
const MINIMAL = { DATABASE_URL: 'postgres://u:p@h/d', BEATKEEPER_ENCRYPTION_KEYS: `k1:${KEY}` };

function faultsOf(environment: Record<string, string>): readonly string[] {
  try {
    readConfig(apiSchema, environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

describe('readConfig', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'beatkeeper-config-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  test('readConfig fills in the defaults and freezes the result', () => {
    const config = readConfig(apiSchema, MINIMAL);
    expect(config).toMatchObject({
      port: 8080,
      host: '0.0.0.0',
      issuers: [],
      minimumIntervalSeconds: 60,
      maxConnections: 10_000,
      databasePool: 10,
      logLevel: 'info',
    });
    expect(config.encryptionKeys).toEqual([{ id: 'k1', key: Buffer.alloc(32, 7) }]);
    expect(Object.isFrozen(config)).toBe(true);
  });

  test('readConfig takes the name of an api as it is, and none by default', () => {
    expect(readConfig(apiSchema, MINIMAL).instanceName).toBeUndefined();
    expect(readConfig(apiSchema, { ...MINIMAL, INSTANCE_NAME: 'api-1' }).instanceName).toBe('api-1');
  });

  test('readConfig treats an empty variable as not set', () => {
    expect(readConfig(apiSchema, { ...MINIMAL, PORT: '' }).port).toBe(8080);
  });

  test('readConfig takes an issuer without a name only where a token names it and the keys have an address', () => {
    const cluster = { audience: 'beatkeeper', organization: 'acme', roles: {} };
    const own = { tokenFile: '/token', jwksUri: 'https://kubernetes.default.svc/openid/v1/jwks' };
    const read = (issuer: object) => ({ ...MINIMAL, BEATKEEPER_ISSUERS: JSON.stringify([issuer]) });
    expect(readConfig(apiSchema, read({ ...cluster, ...own })).issuers).toHaveLength(1);
    expect(faultsOf(read({ ...cluster, tokenFile: own.tokenFile }))[0]).toContain('states no issuer');
    expect(faultsOf(read({ ...cluster, jwksUri: own.jwksUri }))[0]).toContain('states no issuer');
  });

  test('readConfig takes billing by Stripe only with the secret that verifies its events, and shows no secret', () => {
    expect(readConfig(apiSchema, MINIMAL).billingSource).toBe('static');
    const stripe = { ...MINIMAL, BILLING_SOURCE: 'stripe' };
    expect(readConfig(apiSchema, { ...stripe, STRIPE_WEBHOOK_SECRET: 'whsec_1234' })).toMatchObject({
      billingSource: 'stripe',
      stripeWebhookSecret: 'whsec_1234',
    });
    expect(faultsOf(stripe)).toEqual([expect.stringMatching(/^STRIPE_WEBHOOK_SECRET is missing/)]);
    const [fault] = faultsOf({ ...stripe, STRIPE_WEBHOOK_SECRET: 'whsec 1234' });
    expect(fault).toMatch(/^STRIPE_WEBHOOK_SECRET must/);
    expect(fault).not.toContain('1234');
    expect(faultsOf({ ...MINIMAL, BILLING_SOURCE: 'paypal' })).toEqual([
      'BILLING_SOURCE must be static or stripe',
    ]);
  });

  test('readConfig reads the namespaces of shared projects, and refuses what is no name of a namespace', () => {
    const read = (value: string) =>
      readConfig(operatorSchema, { BEATKEEPER_API_URL: 'http://api', BEATKEEPER_SHARED_PROJECTS: value });
    expect(read('').sharedProjects).toEqual([]);
    const entry = { project: 'Web Shop', namespaces: ['shop-*', 's?'] };
    expect(read(JSON.stringify([entry])).sharedProjects).toEqual([entry]);
    for (const namespaces of [['Shop'], ['a,b'], 'shop'])
      expect(() => read(JSON.stringify([{ ...entry, namespaces }]))).toThrow(
        'BEATKEEPER_SHARED_PROJECTS at 0',
      );
    expect(() => read('shop')).toThrow('BEATKEEPER_SHARED_PROJECTS must be a JSON array of {project');
  });

  test('readConfig reads the relay: none by default, and one notifier where none is named', () => {
    const read = (more: object) => readConfig(sweeperSchema, { ...MINIMAL, ...more });
    expect(read({})).toMatchObject({ relayUrl: undefined, relayToken: undefined, relayNotifiers: ['ntfy'] });
    expect(
      read({ RELAY_URL: 'http://ntfy.push.svc/', RELAY_TOKEN: 'tk_1', RELAY_NOTIFIERS: 'phones, desks' }),
    ).toMatchObject({
      relayUrl: 'http://ntfy.push.svc',
      relayToken: 'tk_1',
      relayNotifiers: ['phones', 'desks'],
    });
    expect(() => read({ RELAY_URL: 'ntfy.sh' })).toThrow('RELAY_URL must be an http or https address');
    expect(() => read({ RELAY_TOKEN: 'tk 1\r\nx: y' })).toThrow('RELAY_TOKEN must be a token without blanks');
    for (const notifiers of [',', 'x'.repeat(129), 'a\u0001'])
      expect(() => read({ RELAY_NOTIFIERS: notifiers })).toThrow('RELAY_NOTIFIERS must be names of 1 to 128');
  });

  test('readConfig reports every fault at once, by the name of the variable', () => {
    const faults = faultsOf({ DATABASE_URL: 'mysql://x', PORT: '70000', BEATKEEPER_ISSUERS: '{' });
    expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual([
      'BEATKEEPER_ENCRYPTION_KEYS',
      'BEATKEEPER_ISSUERS',
      'DATABASE_URL',
      'PORT',
    ]);
  });

  test('a fault of the configuration never shows the value', () => {
    const secret = 'postgres-but-wrong://user:hunter2@h';
    const faults = faultsOf({ DATABASE_URL: secret, BEATKEEPER_ENCRYPTION_KEYS: 'k1:hunter2' });
    expect(faults).toHaveLength(2);
    expect(faults.join()).not.toContain('hunter2');
  });

  test('readConfig reads a value from a file, without the newline at its end', () => {
    const file = join(folder, 'url');
    writeFileSync(file, 'postgres://from-file/d\n');
    const environment = {
      BEATKEEPER_ENCRYPTION_KEYS: MINIMAL.BEATKEEPER_ENCRYPTION_KEYS,
      DATABASE_URL_FILE: file,
    };
    expect(readConfig(apiSchema, environment).databaseUrl).toBe('postgres://from-file/d');
  });

  test('readConfig refuses a missing file, and a variable that is set twice', () => {
    const missing = { ...MINIMAL, DATABASE_URL: '', DATABASE_URL_FILE: join(folder, 'none') };
    expect(faultsOf(missing)).toEqual([expect.stringContaining('DATABASE_URL_FILE names a file')]);
    expect(faultsOf({ ...MINIMAL, DATABASE_URL_FILE: folder })).toEqual([
      'DATABASE_URL_FILE and DATABASE_URL are both set: remove one.',
    ]);
  });

  test.each([
    ['k1', 'no key'],
    [`k1:${KEY},k1:${KEY}`, 'an id twice'],
    [`k1:${KEY.slice(4)}`, 'a short key'],
    [`k1:${KEY},`, 'an empty entry'],
  ])('readConfig refuses the encryption keys %s (%s)', (keys) => {
    expect(faultsOf({ ...MINIMAL, BEATKEEPER_ENCRYPTION_KEYS: keys })).toHaveLength(1);
  });

  test('the fault of an issuer names the path to the wrong field', () => {
    const issuer = {
      issuer: 'https://i',
      audience: 'beatkeeper',
      organization: 'default',
      roles: { ann: 'admin' },
    };
    const [fault] = faultsOf({ ...MINIMAL, BEATKEEPER_ISSUERS: JSON.stringify([issuer]) });
    expect(fault).toContain('BEATKEEPER_ISSUERS at 0.roles.ann');
  });

  test('tokens of an issuer may be a day old unless it states another maxTokenAge', () => {
    const issuer = { issuer: 'https://i', audience: 'beatkeeper', organization: 'default', roles: {} };
    const ageOf = (given: object) =>
      readConfig(apiSchema, { ...MINIMAL, BEATKEEPER_ISSUERS: JSON.stringify([{ ...issuer, ...given }]) })
        .issuers[0]?.maxTokenAge;
    expect(ageOf({})).toBe(86_400);
    expect(ageOf({ maxTokenAge: 600 })).toBe(600);
  });

  test('an issuer states its organization, or the claim that names it', () => {
    const issuer = { issuer: 'https://i', audience: 'beatkeeper', roles: {} };
    const [fault] = faultsOf({ ...MINIMAL, BEATKEEPER_ISSUERS: JSON.stringify([issuer]) });
    expect(fault).toBe('BEATKEEPER_ISSUERS at 0: states neither organization nor organizationClaim');
    const claim = JSON.stringify([{ ...issuer, organizationClaim: 'org' }]);
    expect(readConfig(apiSchema, { ...MINIMAL, BEATKEEPER_ISSUERS: claim }).issuers).toHaveLength(1);
  });

  test('readConfig reads lists of names', () => {
    const config = readConfig(operatorSchema, {
      BEATKEEPER_API_URL: 'http://api:8080/',
      BEATKEEPER_WATCH_NAMESPACES: 'a, b,,',
    });
    expect(config).toMatchObject({
      apiUrl: 'http://api:8080',
      watchNamespaces: ['a', 'b'],
      namespace: 'default',
    });
  });
});

describe('describeConfig', () => {
  test('describeConfig names every variable with its default', () => {
    const words = describeConfig('api', apiSchema);
    for (const [, { name }] of listVariables(apiSchema)) expect(words).toContain(name);
    expect(words).toContain('Default: 8080.');
  });
});

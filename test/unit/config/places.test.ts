// JURISDICTION_<NAME>_DATABASE_URL: a database for each jurisdiction, and the sentence for each fault.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { apiSchema } from '../../../src/config/api-config.ts';
import { migrateSchema } from '../../../src/config/migrate-config.ts';
import { ConfigError, describeConfig, readConfig } from '../../../src/config/read-config.ts';
import { sweeperSchema } from '../../../src/config/sweeper-config.ts';

const MINIMAL = {
  DATABASE_URL: 'postgres://u:hunter2@db.example.com/beats',
  BEATKEEPER_ENCRYPTION_KEYS: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
};
const EU = 'postgresql://u:hunter2@eu.example.com:5433/beats';
const US = 'postgres://u:hunter2@us.example.com/beats?sslmode=verify-full';

const folder = mkdtempSync(join(tmpdir(), 'beatkeeper-places-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Given = Record<string, string>;

const roles = [
  ['api', apiSchema, (given: Given) => readConfig(apiSchema, { ...MINIMAL, ...given }).places],
  ['sweeper', sweeperSchema, (given: Given) => readConfig(sweeperSchema, { ...MINIMAL, ...given }).places],
  ['migrate', migrateSchema, (given: Given) => readConfig(migrateSchema, { ...MINIMAL, ...given }).places],
] as const;

function faultsOf(read: (given: Given) => unknown, given: Given): readonly string[] {
  try {
    read(given);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

describe.each(roles)('the databases of jurisdictions of the role %s', (role, schema, read) => {
  it('are none without a setting, or with an empty one', () => {
    expect(read({})).toEqual([]);
    expect(read({ JURISDICTION_EU_DATABASE_URL: '', JURISDICTION_MARS_DATABASE_URL: '' })).toEqual([]);
  });

  it('are those of the variables, in the order of the contract, from values and from files', () => {
    const file = join(folder, role);
    writeFileSync(file, `${EU}\n`);
    const given = { JURISDICTION_US_DATABASE_URL: US, JURISDICTION_EU_DATABASE_URL_FILE: file };
    expect(read(given)).toEqual([
      { jurisdiction: 'eu', databaseUrl: EU },
      { jurisdiction: 'us', databaseUrl: US },
    ]);
    const all = ['UNRESTRICTED', 'EU', 'US', 'FEDRAMP'].map((name) => [
      `JURISDICTION_${name}_DATABASE_URL`,
      `postgres://${name}.example.com/beats`,
    ]);
    expect(read(Object.fromEntries(all)).map(({ jurisdiction }) => jurisdiction)).toEqual([
      'unrestricted',
      'eu',
      'us',
      'fedramp',
    ]);
  });

  it.each([
    [
      'another kind of address',
      { JURISDICTION_EU_DATABASE_URL: 'mysql://u:hunter2@h/d' },
      'JURISDICTION_EU_DATABASE_URL must begin with postgres:// or postgresql://',
    ],
    [
      'an address that is no URL',
      { JURISDICTION_EU_DATABASE_URL: 'postgres://u:hunter2/x@h/d' },
      'JURISDICTION_EU_DATABASE_URL is no URL: write special characters of the user and the password as % and two hex digits, such as %2F for /',
    ],
    [
      'a jurisdiction that there is not',
      { JURISDICTION_MARS_DATABASE_URL: EU },
      'JURISDICTION_MARS_DATABASE_URL is no setting: <NAME> of JURISDICTION_<NAME>_DATABASE_URL is one of UNRESTRICTED, EU, US, FEDRAMP.',
    ],
    [
      'a jurisdiction in lower case',
      { JURISDICTION_eu_DATABASE_URL_FILE: '/run/url' },
      'JURISDICTION_eu_DATABASE_URL_FILE is no setting: <NAME> of JURISDICTION_<NAME>_DATABASE_URL is one of UNRESTRICTED, EU, US, FEDRAMP.',
    ],
    [
      'no jurisdiction',
      { JURISDICTION_DATABASE_URL: EU },
      'JURISDICTION_DATABASE_URL is no setting: <NAME> of JURISDICTION_<NAME>_DATABASE_URL is one of UNRESTRICTED, EU, US, FEDRAMP.',
    ],
    [
      'a file that is not there',
      { JURISDICTION_EU_DATABASE_URL_FILE: '/nowhere/url' },
      'JURISDICTION_EU_DATABASE_URL_FILE names a file that cannot be read (ENOENT).',
    ],
    [
      'the address itself in place of a file, whose password is not shown',
      { JURISDICTION_EU_DATABASE_URL_FILE: EU },
      'JURISDICTION_EU_DATABASE_URL_FILE names a file that cannot be read (ENOENT).',
    ],
    [
      'the default database, by another role',
      {
        JURISDICTION_EU_DATABASE_URL: 'postgresql://other:hunter2@DB.example.com:5432/beats?sslmode=require',
      },
      'JURISDICTION_EU_DATABASE_URL names the database of DATABASE_URL: give the jurisdiction a database of its own',
    ],
    [
      'the database of another jurisdiction',
      { JURISDICTION_EU_DATABASE_URL: EU, JURISDICTION_US_DATABASE_URL: EU },
      'JURISDICTION_US_DATABASE_URL names the database of JURISDICTION_EU_DATABASE_URL: give the jurisdiction a database of its own',
    ],
    [
      'the default database on a socket',
      {
        DATABASE_URL: 'postgres://u:hunter2@/beats?host=/run/postgres',
        JURISDICTION_EU_DATABASE_URL: 'postgres://v@/beats?host=/run/postgres',
      },
      'JURISDICTION_EU_DATABASE_URL names the database of DATABASE_URL: give the jurisdiction a database of its own',
    ],
    [
      'any on Citus',
      { BEATKEEPER_DATABASE_ENGINE: 'citus', JURISDICTION_EU_DATABASE_URL: EU },
      'JURISDICTION_EU_DATABASE_URL is set, but BEATKEEPER_DATABASE_ENGINE is citus: there no jurisdiction has a database of its own',
    ],
  ])('refuses %s with a sentence, which has no password', (_, given, sentence) => {
    const faults = faultsOf(read, given as Given);
    expect(faults).toEqual([sentence]);
    expect(faults.join()).not.toContain('hunter2');
  });

  it('takes databases of one server, and of one name on several', () => {
    const places = {
      JURISDICTION_EU_DATABASE_URL: 'postgres://u@db.example.com/eu',
      JURISDICTION_US_DATABASE_URL: 'postgres://u@db.example.com:5433/beats',
    };
    expect(faultsOf(read, places)).toEqual([]);
  });

  it('are named in the help', () => {
    expect(describeConfig(role, schema)).toContain('JURISDICTION_<NAME>_DATABASE_URL');
  });
});

it('migrate reads the role of api and sweeper in each database', () => {
  const given = {
    ...MINIMAL,
    JURISDICTION_EU_DATABASE_URL: EU,
    JURISDICTION_EU_DATABASE_APPLICATION_ROLE: 'rows',
  };
  expect(readConfig(migrateSchema, given).placeRoles).toEqual({ eu: 'rows' });
});

it('an address that is no URL is refused before anybody logs it', () => {
  expect(faultsOf(roles[0][2], { DATABASE_URL: 'postgres://u:hunter2#@h/d' })).toEqual([
    'DATABASE_URL is no URL: write special characters of the user and the password as % and two hex digits, such as %2F for /',
  ]);
});

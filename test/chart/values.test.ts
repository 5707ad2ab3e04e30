// Values: what is refused, and that schema, README and values.yaml say the same.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readReadme, renderReadme } from '../../charts/render-readme.ts';
import { runProgram } from '../support/run-program.ts';
import { CHART, requireHelm, template } from './helm.ts';

const found = await requireHelm();
const helm = found ?? '';

const refusals: [string, object, RegExp][] = [
  ['a name that is no value', { replicas: 3 }, /additional properties 'replicas'/],
  ['a misspelled value deep down', { api: { autoscaling: { enable: true } } }, /'enable'/],
  ['a plan that is none', { plan: 'gold' }, /\/plan/],
  ['an address without a scheme', { publicUrl: 'beats.example.com' }, /publicUrl/],
  ['replicas in words', { sweeper: { replicas: 'two' } }, /\/sweeper\/replicas/],
  ['a mode of migrations that is none', { migrations: { mode: 'hook' } }, /\/migrations\/mode/],
  [
    'a destination with a scheme',
    { callbacks: { allowedPrivateDestinations: ['http://10.0.0.1'] } },
    /callbacks/,
  ],
  ['a namespace with capitals', { operator: { watchNamespaces: ['Payments'] } }, /watchNamespaces/],
  [
    'durability turned off',
    { postgresql: { parameters: { synchronous_commit: 'off' } } },
    /synchronous_commit/,
  ],
  [
    'an issuer that makes operators',
    { auth: { issuers: [{ issuer: 'https://a.example', audience: 'b', roles: { c: 'operator' } }] } },
    /\/auth\/issuers\/0\/roles\/c/,
  ],
  ['no database at all', { postgresql: { enabled: false } }, /set database\.existingSecret/],
  ['two databases', { database: { existingSecret: 'mine' } }, /set postgresql\.enabled=false/],
  ['a hook before its database', { migrations: { mode: 'job' } }, /use migrations\.mode=init/],
  ['an ingress for no host', { api: { ingress: { enabled: true } } }, /needs api\.ingress\.host/],
  [
    'fewer than fewest',
    { api: { autoscaling: { minReplicas: 5, maxReplicas: 2 } } },
    /minReplicas is greater/,
  ],
];

describe.skipIf(found === undefined)('values are refused', () => {
  it.each(refusals)('%s', async (_, values, words) => {
    const { code, stderr } = await template(helm, values);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(words);
  });
});

describe.skipIf(found === undefined)('settings of the bundled Postgres', () => {
  it('may be booleans, which `on` and `off` without quotes are, but durability stays on', async () => {
    const set = (parameters: object) => template(helm, { postgresql: { parameters } });
    const { code, stdout } = await set({ fsync: true, log_lock_waits: true, jit: false, work_mem: '8MB' });
    expect(code).toBe(0);
    for (const text of ['fsync=true', 'log_lock_waits=true', 'jit=false', 'work_mem=8MB'])
      expect(stdout).toContain(`- "${text}"`);
    expect((await set({ fsync: false })).stderr).toMatch(/\/postgresql\/parameters\/fsync/);
  });
});

describe.skipIf(found === undefined)('what an install prints', () => {
  const notes = async (...args: string[]) => {
    const install = ['install', 'bk', CHART, '--dry-run=client', '--namespace', 'x', ...args];
    const { code, stdout, stderr } = await runProgram(helm, install);
    if (code !== 0) throw new Error(stderr);
    return stdout.slice(stdout.indexOf('\nNOTES:'));
  };
  const external = ['--set', 'postgresql.enabled=false,database.existingSecret=mine'];

  it('names what is to be backed up: the volume that it made, the key that it made', async () => {
    expect(await notes()).toMatch(/data-bk-beatkeeper-postgresql-0.*bk-beatkeeper-encryption/s);
    expect(await notes(...external)).toContain('bk-beatkeeper-encryption');
    expect(await notes(...external)).not.toContain('data-bk');
    const named = await notes(...external, '--set', 'encryption.existingSecret=keys');
    expect(named).not.toMatch(/[Bb]ack up/);
  });

  it('warns of an ingress whose address no publish address has', async () => {
    const ingress = ['--set', 'api.ingress.enabled=true,api.ingress.host=beats.example.com'];
    expect(await notes(...ingress)).toContain('set publicUrl to the address of api.ingress');
    const address = ['--set', 'publicUrl=https://beats.example.com'];
    expect(await notes(...ingress, ...address)).not.toContain('set publicUrl');
  });
});

describe('values are documented', () => {
  it('in a README that fits values.yaml (else: node charts/render-readme.ts)', () => {
    expect(readReadme()).toBe(renderReadme());
  });

  it('and the schema knows exactly those of values.yaml', () => {
    const values: unknown = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'));
    const schema = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')) as Schema;
    const { global: _, ...properties } = schema.properties ?? {};
    expect(compare(values, { ...schema, properties }, '')).toEqual([]);
  });
});

interface Schema {
  additionalProperties?: unknown;
  properties?: Record<string, Schema>;
}

// A closed object of the schema has the keys of the value, and so on below; an open one is the user's own.
function compare(value: unknown, schema: Schema, path: string): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  if (schema.additionalProperties !== false) return [];
  const { properties = {} } = schema;
  const inValues = Object.keys(value);
  const inSchema = Object.keys(properties);
  return [
    ...inValues.filter((key) => !inSchema.includes(key)).map((key) => `${path}${key} is not in the schema`),
    ...inSchema.filter((key) => !inValues.includes(key)).map((key) => `${path}${key} is not in values.yaml`),
    ...Object.entries(value).flatMap(([key, child]) =>
      compare(child, properties[key] ?? {}, `${path}${key}.`),
    ),
  ];
}

// Values: what is refused, and that schema, README and values.yaml say the same.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readReadme, renderReadme } from '../../charts/render-readme.ts';
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

// Values: which are refused, and that schema, README and values.yaml agree.
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
  ['an unknown value', { replicas: 3 }, /additional properties 'replicas'/],
  ['a misspelled nested value', { api: { autoscaling: { enable: true } } }, /'enable'/],
  ['an unknown plan', { plan: 'gold' }, /\/plan/],
  ['limits of an unknown plan', { plans: { gold: {} } }, /invalid propertyName 'gold'/],
  ['an unknown dimension of a plan', { plans: { free: { monitors: 1 } } }, /\/plans\/free/],
  ['a publicUrl without a scheme', { publicUrl: 'beats.example.com' }, /publicUrl/],
  ['a text as number of replicas', { sweeper: { replicas: 'two' } }, /\/sweeper\/replicas/],
  ['an unknown mode of migrations', { migrations: { mode: 'hook' } }, /\/migrations\/mode/],
  [
    'a private destination with a scheme',
    { callbacks: { allowedPrivateDestinations: ['http://10.0.0.1'] } },
    /callbacks/,
  ],
  ['a relay without a scheme', { relay: { url: 'push.example.com' } }, /relay/],
  ['a relay without notifiers', { relay: { notifiers: [] } }, /notifiers/],
  ['a notifier of blanks alone', { relay: { notifiers: [' '] } }, /\/relay\/notifiers\/0/],
  [
    'the token of a relay without a relay',
    { relay: { existingSecret: 'token' } },
    /relay\.existingSecret is the token of a relay, but there is none: set relay\.url/,
  ],
  [
    'a feature of a plan that is named twice',
    { plans: { free: { detector_feature: ['ratio', 'ratio'] } } },
    /\/plans\/free\/detector_feature/,
  ],
  ['a text as a switch of workloads', { operator: { workloads: { enabled: 'sometimes' } } }, /workloads/],
  ['a namespace with capital letters', { operator: { watchNamespaces: ['Payments'] } }, /watchNamespaces/],
  [
    'a Postgres that is too old',
    { postgresql: { image: { tag: '16.4-alpine' } } },
    /\/postgresql\/image\/tag/,
  ],
  [
    'a Postgres that is too old, as a number',
    { postgresql: { image: { tag: 9 } } },
    /\/postgresql\/image\/tag/,
  ],
  [
    'alerts without the ServiceMonitor whose metrics they ask for',
    { metrics: { prometheusRule: { enabled: true } } },
    /metrics.prometheusRule.enabled.*true with metrics\.serviceMonitor\.enabled=true/,
  ],
  [
    'a parameter that turns durability off',
    { postgresql: { parameters: { synchronous_commit: 'off' } } },
    /synchronous_commit/,
  ],
  [
    'an issuer with the role operator',
    { auth: { issuers: [{ issuer: 'https://a.example', audience: 'b', roles: { c: 'operator' } }] } },
    /\/auth\/issuers\/0\/roles\/c/,
  ],
  [
    'a shared project without its namespaces',
    { operator: { sharedProjects: [{ project: 'shop' }] } },
    /operator\/sharedProjects\/0/,
  ],
  [
    'a shared project whose namespace has capital letters',
    { operator: { sharedProjects: [{ project: 'shop', namespaces: ['Shop'] }] } },
    /operator\/sharedProjects\/0/,
  ],
  [
    'shared projects where the name of a namespace is its project',
    { operator: { watchNamespaces: ['shop'], sharedProjects: [{ project: 'web', namespaces: ['shop'] }] } },
    /operator.sharedProjects.*empty with operator\.watchNamespaces/,
  ],
  ['an install without a database', { postgresql: { enabled: false } }, /set database\.existingSecret/],
  [
    'an install with two databases',
    { database: { existingSecret: 'mine' } },
    /set postgresql\.enabled=false/,
  ],
  ['a migration hook for the bundled database', { migrations: { mode: 'job' } }, /use migrations\.mode=init/],
  [
    "an owner's URL for the bundled database",
    { migrations: { existingSecret: 'mine' } },
    /the bundled Postgres has its own two roles/,
  ],
  [
    'an application role without the URL of the owner',
    { postgresql: { enabled: false }, database: { existingSecret: 'mine', applicationRole: 'rows' } },
    /needs migrations\.existingSecret/,
  ],
  ['a database of an unknown jurisdiction', { jurisdictions: { mars: {} } }, /invalid propertyName 'mars'/],
  [
    'a database of a jurisdiction without its Secret',
    { jurisdictions: { eu: { existingSecretKey: 'url' } } },
    /\/jurisdictions\/eu.*existingSecret/,
  ],
  [
    'an application role of a jurisdiction without the URL of the owner',
    { jurisdictions: { eu: { existingSecret: 'eu', applicationRole: 'rows' } } },
    /needs jurisdictions\.eu\.migrations\.existingSecret/,
  ],
  [
    'a database of a jurisdiction beside a Citus cluster',
    {
      postgresql: { enabled: false },
      database: { existingSecret: 'mine', engine: 'citus' },
      jurisdictions: { eu: { existingSecret: 'eu' } },
    },
    /jurisdictions\.eu has a database of its own, but database\.engine is citus/,
  ],
  [
    'policies of egress that do not name the databases of jurisdictions',
    {
      networkPolicy: { egress: { enabled: true, apiServer: ['10.0.0.2/32'] } },
      jurisdictions: { eu: { existingSecret: 'eu' } },
    },
    /the addresses of the databases of jurisdictions/,
  ],
  [
    'billing by Stripe without the secret that verifies its events',
    { billing: { source: 'stripe' } },
    /needs billing\.stripe\.existingSecret/,
  ],
  ['an Ingress without a host', { api: { ingress: { enabled: true } } }, /needs api\.ingress\.host/],
  [
    'a minimum of replicas above the maximum',
    { api: { autoscaling: { minReplicas: 5, maxReplicas: 2 } } },
    /minReplicas is greater/,
  ],
];

describe.skipIf(found === undefined)('values are refused', () => {
  it.each(refusals)('the chart refuses %s', async (_, values, words) => {
    const { code, stderr } = await template(helm, values);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(words);
  });
});

describe.skipIf(found === undefined)('settings of the bundled Postgres', () => {
  it('a Postgres parameter may be a YAML boolean, but none may turn durability off', async () => {
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

  it('the notes name the volume and the key to back up, if the release has created them', async () => {
    expect(await notes()).toMatch(/data-bk-beatkeeper-postgresql-0.*bk-beatkeeper-encryption/s);
    expect(await notes(...external)).toContain('bk-beatkeeper-encryption');
    expect(await notes(...external)).not.toContain('data-bk');
    const named = await notes(...external, '--set', 'encryption.existingSecret=keys');
    expect(named).not.toMatch(/[Bb]ack up/);
  });

  it('the notes warn of an Ingress without publicUrl', async () => {
    const ingress = ['--set', 'api.ingress.enabled=true,api.ingress.host=beats.example.com'];
    expect(await notes(...ingress)).toContain('set publicUrl to the address of api.ingress');
    const address = ['--set', 'publicUrl=https://beats.example.com'];
    expect(await notes(...ingress, ...address)).not.toContain('set publicUrl');
  });
});

describe('values are documented', () => {
  it('the README has the comments of values.yaml (if not, run node charts/render-readme.ts)', () => {
    expect(readReadme()).toBe(renderReadme());
  });

  it('the schema has exactly the values of values.yaml, and those that a chart above sets', () => {
    const values: unknown = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8'));
    const schema = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8')) as Schema;
    const { global: _, enabled: __, ...properties } = schema.properties ?? {};
    expect(compare(values, { ...schema, properties }, '')).toEqual([]);
  });
});

interface Schema {
  additionalProperties?: unknown;
  properties?: Record<string, Schema>;
}

// A closed object of the schema must have the same keys as the value, at every level; an open object may have any.
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

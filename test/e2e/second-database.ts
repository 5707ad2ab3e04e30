// A Postgres in the cluster that is not the chart's, prepared as docs/operations.md says, and what databases hold.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHECKOUT, type Cluster } from './cluster.ts';
import { restrictedNamespace } from './objects.ts';

const IMAGE = 'postgres:18';
const USER_ID = 999;

export interface SecondDatabase {
  /** The address for the role that changes rows, and for the one that owns the schema. */
  url: string;
  ownerUrl: string;
  psql: Psql;
  /** Ends its pod and waits until it is gone; its data stay. */
  stop(): Promise<void>;
  /** Starts its pod again and waits until it is ready. */
  start(): Promise<void>;
}

/** Runs SQL, or commands of psql, as a superuser, and returns the rows, with `|` between their values. */
export type Psql = (sql: string) => Promise<string[]>;

/** Makes `namespace` and, in it, a server with an empty database and its two roles. */
export async function startSecondDatabase(
  cluster: Cluster,
  namespace: string,
  name: string,
): Promise<SecondDatabase> {
  const passwords = { owner: makePassword(), application: makePassword() };
  await cluster.apply(restrictedNamespace(namespace), ...serverObjects(name, namespace));
  const rollout = () =>
    cluster.kubectl('-n', namespace, 'rollout', 'status', `statefulset/${name}`, '--timeout=300s');
  const scale = (replicas: number) =>
    cluster.kubectl('-n', namespace, 'scale', `statefulset/${name}`, `--replicas=${replicas}`);
  await rollout();
  const administrator = psqlIn(cluster, namespace, `${name}-0`, 'postgres');
  await administrator(await administratorSql(passwords));
  const urlOf = (role: string, password: string) =>
    `postgresql://${role}:${password}@${name}.${namespace}.svc:5432/beatkeeper`;
  return {
    url: urlOf('beatkeeper_application', passwords.application),
    ownerUrl: urlOf('beatkeeper', passwords.owner),
    psql: psqlIn(cluster, namespace, `${name}-0`, 'beatkeeper'),
    async stop() {
      await scale(0);
      await cluster.kubectl('-n', namespace, 'wait', '--for=delete', `pod/${name}-0`, '--timeout=300s');
    },
    async start() {
      await scale(1);
      await rollout();
    },
  };
}

/** psql in the pod of a server, in one of its databases. */
export function psqlIn(cluster: Cluster, namespace: string, pod: string, database: string): Psql {
  const command = ['psql', '-U', 'postgres', '-d', database, '-v', 'ON_ERROR_STOP=1', '-qAt'];
  return async (sql) => {
    const output = await cluster.kubectlWith(sql, '-n', namespace, 'exec', '-i', pod, '--', ...command);
    return output.split('\n').filter((row) => row !== '');
  };
}

/** How many rows of each table have this text in any column; tables without such a row are left out. */
export async function countRowsWith(psql: Psql, text: string): Promise<Record<string, number>> {
  const rows = await psql(
    `select format('select %L, count(*) from %I as a_row where strpos(a_row::text, %L) > 0 having count(*) > 0',
        c.relname, c.relname, '${text}')
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition
      order by c.relname \\gexec\n`,
  );
  return Object.fromEntries(
    rows.map((row) => {
      const [table = '', count] = row.split('|');
      return [table, Number(count)];
    }),
  );
}

/** The first block of code of docs/operations.md in this language that contains these words. */
export async function readExample(language: string, words: string): Promise<string> {
  const page = await readFile(join(CHECKOUT, 'docs', 'operations.md'), 'utf8');
  const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)];
  const found = blocks.find(([, name, text]) => name === language && text?.includes(words));
  if (!found?.[2]) throw new Error(`docs/operations.md has no ${language} with ${words}.`);
  return found[2];
}

/** What an administrator runs once, with these passwords in place of the dots. */
async function administratorSql(passwords: { owner: string; application: string }): Promise<string> {
  const sql = await readExample('sql', 'create role beatkeeper_application');
  const withPasswords = sql
    .replace(/(role beatkeeper login password) '…'/, `$1 '${passwords.owner}'`)
    .replace(/(role beatkeeper_application login password) '…'/, `$1 '${passwords.application}'`);
  if (withPasswords.includes('…')) throw new Error(`Not all passwords are set: ${sql}`);
  return withPasswords;
}

const makePassword = () => randomBytes(16).toString('hex');

function serverObjects(name: string, namespace: string): object[] {
  const labels = { server: name };
  const meta = { name, namespace };
  const container = {
    name: 'postgres',
    image: IMAGE,
    imagePullPolicy: 'IfNotPresent',
    env: [
      { name: 'POSTGRES_PASSWORD', value: makePassword() },
      { name: 'PGDATA', value: '/var/lib/second/postgresql' },
    ],
    readinessProbe: {
      exec: { command: ['pg_isready', '-h', '127.0.0.1', '-U', 'postgres'] },
      periodSeconds: 2,
    },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [
      { name: 'data', mountPath: '/var/lib/second' },
      { name: 'run', mountPath: '/var/run/postgresql' },
    ],
  };
  const spec = {
    automountServiceAccountToken: false,
    securityContext: {
      ...{ runAsNonRoot: true, runAsUser: USER_ID, runAsGroup: USER_ID, fsGroup: USER_ID },
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [container],
    volumes: [{ name: 'run', emptyDir: {} }],
  };
  const claim = {
    metadata: { name: 'data' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: meta,
      spec: { selector: labels, ports: [{ port: 5432 }] },
    },
    {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: meta,
      spec: {
        ...{ serviceName: name, replicas: 1, selector: { matchLabels: labels } },
        template: { metadata: { labels }, spec },
        volumeClaimTemplates: [claim],
      },
    },
  ];
}

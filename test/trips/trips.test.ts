// How many source files four trips enter: a reader must know these to follow each trip. A budget limits the counts: a
// change that needs more files raises it on purpose, with a reason.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { adminKubeconfig, connect, createNamespace, hasCluster, type TestClient } from '../kube/cluster.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { startReceiver } from '../support/receiver.ts';
import { dueAt, seedCredential, seedEndpoint, seedMonitor } from '../support/seed.ts';
import { startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts';
import { waitFor } from '../support/wait-for.ts';
import { CountedProcess } from './coverage.ts';

/**
 * Files per trip: without src/kube and src/telemetry, without those of periodic jobs and of rests, which may run meanwhile,
 * and in the api without those that every request enters. Rules on measurements are in all but the first: a PATCH resolves
 * what a removed rule had opened, at a deadline the time alone may open or raise an incident of a rule, and for a
 * Monitor the Rules are looked up that may be about it, and what they give is found and applied. So is the maintenance: a PATCH
 * and a deadline count around windows, and a Monitor has those of its namespace. At a deadline it is asked which of the monitors
 * operators beat, and which alerts name a cause that an operator sees, and of a Monitor whether it has a workload, whether what
 * keeps workloads from running concerns it, and whether a CronJob made it. All but a beat ask what the monitor depends on, or what
 * depends on it.
 */
const BUDGET = { beat: 15, patch: 43, monitor: 46, deadline: 64 };

const NO_PART_OF_A_TRIP =
  /^(kube|telemetry|sweeper\/upkeep|store\/upkeep|store\/deliveries\/cancellations|sweeper\/deadlines\/end-rests|store\/monitors\/(?:resting|held))\b/;

let fixture: ProjectFixture;
let issuer: TokenIssuer;
let settings: Record<string, string>;
let api: CountedProcess;
/** The files that the simplest request to the api enters: the HTTP server, without the product. */
let frame: Set<string>;

beforeAll(async () => {
  fixture = await openProjectFixture();
  issuer = await startTokenIssuer();
  const { pool, project, databaseUrl } = fixture;
  const { rows } = await pool.query<{ name: string }>(
    'select name from organizations where organization_id = $1',
    [project.organizationId],
  );
  const trusted = issuer.trusted({
    organization: rows[0]?.name ?? '',
    roleClaim: 'role',
    roles: { operator: 'operator' },
  });
  settings = {
    DATABASE_URL: databaseUrl,
    BEATKEEPER_ENCRYPTION_KEYS: `${ENCRYPTION_KEY.id}:${ENCRYPTION_KEY.key.toString('base64')}`,
    BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS: '127.0.0.0/8',
    BEATKEEPER_ISSUERS: JSON.stringify([trusted]),
    BEATKEEPER_DRAIN_SECONDS: '0',
  };
  api = await CountedProcess.start('api', settings);
  frame = new Set(await api.count({ run: () => fetch(addressOfApi('/')).then((answer) => answer.text()) }));
});

afterAll(async () => {
  await api?.stop();
  await issuer?.close();
  await fixture?.close();
});

const addressOfApi = (path: string) => `http://127.0.0.1:${api.port}${path}`;

function expectWithinBudget(trip: keyof typeof BUDGET, entered: readonly string[]): void {
  const files = entered.filter((file) => !NO_PART_OF_A_TRIP.test(file));
  console.log(`${trip}: ${files.length} files\n  ${files.join('\n  ')}`);
  expect(files.length).toBeGreaterThan(0);
  expect(files.length, `files that the trip ${trip} enters`).toBeLessThanOrEqual(BUDGET[trip]);
}

/** Counts a trip through the api, without the frame. */
const countApi = async (run: () => Promise<void>) =>
  (await api.count({ run })).filter((file) => !frame.has(file));

it('a beat enters few files from the socket to the answer', async () => {
  const { address } = await seedMonitor(fixture.pool, fixture.project);
  const run = async () => {
    const answer = await fetch(addressOfApi(`/ping/${address}`));
    expect(answer.status, await answer.text()).toBe(200);
  };
  expectWithinBudget('beat', await countApi(run));
});

it('a PATCH of a monitor enters few files from the socket to the answer', async () => {
  const { pool, project } = fixture;
  const { monitorId } = await seedMonitor(pool, project);
  const token = await seedCredential(pool, { projectId: project.projectId, preset: 'manage' });
  const url = addressOfApi(`/v1/monitors/${monitorId}`);
  const authorization = `Bearer ${token}`;
  const { headers } = await fetch(url, { headers: { authorization } });
  let etag = headers.get('etag') ?? '';
  let graceSeconds = 60;
  const run = async () => {
    graceSeconds += 1;
    const answer = await fetch(url, {
      method: 'PATCH',
      headers: { authorization, 'content-type': 'application/json', 'if-match': etag },
      body: JSON.stringify({ patch: { graceSeconds } }),
    });
    expect(await answer.json()).toMatchObject({ graceSeconds });
    etag = answer.headers.get('etag') ?? '';
  };
  expectWithinBudget('patch', await countApi(run));
});

it('a missed deadline enters few files from the sweep that finds it to the receiver', async () => {
  const { pool, project } = fixture;
  let arrived = Promise.withResolvers<ServerResponse>();
  const receiver = await startReceiver((response) => arrived.resolve(response));
  await seedEndpoint(fixture, receiver.url, true);
  const sweeper = await CountedProcess.start('sweeper', settings);
  const run = async () => {
    arrived = Promise.withResolvers();
    const { rows } = await pool.query<{ ms: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms',
    );
    await seedMonitor(pool, project, dueAt(rows[0]?.ms ?? 0));
    await arrived.promise;
  };
  // The receiver answers after the count: the outcome of the delivery is not part of the trip.
  const settle = async () => {
    (await arrived.promise).writeHead(204).end();
    const isWritten = async () => {
      const { rows } = await pool.query(
        "select from deliveries where state <> 'delivered' or lease_owner is not null",
      );
      return rows.length === 0;
    };
    await waitFor(isWritten, { what: 'the outcome is written' });
  };
  try {
    expectWithinBudget('deadline', await sweeper.count({ run, settle }));
  } finally {
    await sweeper.stop();
    await receiver.close();
  }
});

it.skipIf(!hasCluster)(
  'a new Monitor enters few files of the operator from the watch to its status',
  async () => {
    const kube = connect();
    const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-trips-'));
    const tokenFile = join(folder, 'token');
    const namespace = await createNamespace(kube.client);
    await writeFile(tokenFile, await issuer.sign({ claims: { role: 'operator' } }));
    const operator = await CountedProcess.start('operator', {
      BEATKEEPER_API_URL: addressOfApi(''),
      BEATKEEPER_TOKEN_FILE: tokenFile,
      KUBECONFIG: adminKubeconfig,
      POD_NAMESPACE: namespace,
    });
    try {
      expectWithinBudget('monitor', await operator.count({ run: () => makeMonitor(kube, namespace) }));
    } finally {
      await operator.stop();
      await kube.close();
      await rm(folder, { recursive: true, force: true });
    }
  },
);

interface MonitorObject extends KubeObject {
  status?: { conditions?: { type: string; status: string }[] };
}

const MONITORS: KubeResource<MonitorObject> = {
  apiVersion: 'beatkeeper.dev/v1alpha1',
  kind: 'Monitor',
  plural: 'monitors',
  namespaced: true,
};

const isReady = ({ status }: MonitorObject) =>
  status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True');

/** Resolves when the Monitor has a status with Ready=True. */
async function makeMonitor({ client }: TestClient, namespace: string): Promise<void> {
  const spec = { intervalSeconds: 300, graceSeconds: 60, callback: { kind: 'disabled' } };
  const wanted = { metadata: { name: `monitor-${randomUUID()}`, namespace }, spec };
  const { metadata } = await client.create(MONITORS, wanted);
  const watched = new AbortController();
  const events = client.watch(MONITORS, {
    namespace,
    resourceVersion: metadata.resourceVersion ?? '',
    timeoutSeconds: 60,
    signal: watched.signal,
  });
  try {
    for await (const event of events) if ('object' in event && isReady(event.object)) return;
    throw new Error('The monitor is not ready.');
  } finally {
    watched.abort();
  }
}

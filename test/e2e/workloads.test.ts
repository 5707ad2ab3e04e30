// CronJobs and Jobs with the controllers and the kubelet of a whole cluster: each case has exactly the observations and incidents that
// its row names, also while the operator is killed and while it is away. All cases run side by side, because a CronJob fires once a
// minute at most. The tests run in this order.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lowerMinimums } from '../../src/dev/control-plane/development-cluster.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import { connectCluster } from '../../src/install/connect-cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { AWAY_CASES, KILL_CASES } from './absence-cases.ts';
import { CHART, type Cluster, IMAGE, startCluster } from './cluster.ts';
import { type MonitorRecords, recordsOf } from './monitor-records.ts';
import { monitor, restrictedNamespace } from './objects.ts';
import { useProduct } from './product.ts';
import { startToldJobs, type ToldJobs } from './told-jobs.ts';
import { type CaseTools, WATCHED_CASES, type WorkloadCase } from './workload-cases.ts';

const SYSTEM = 'beatkeeper';
const TEAM = 'payments';
/** A namespace of the same project in which no Job can be made. */
const SHUT = 'shut';
const OPERATOR = 'deployment/beatkeeper-operator';
const OPERATOR_PODS = 'app.kubernetes.io/component=operator,app.kubernetes.io/name=beatkeeper';
const MINUTE_MS = 60_000;
/** The shortest grace that Monitors may have here. */
const SECONDS = 15;
/** Runs in every minute, and is healthy all the time. A busy machine takes long to start a pod. */
const STEADY = 'steady';
const STEADY_GRACE_SECONDS = 40;
type AnyCase = Omit<WorkloadCase, 'act'>;
const ALL: Readonly<Record<string, AnyCase>> = { ...WATCHED_CASES, ...KILL_CASES, ...AWAY_CASES };

let cluster: Cluster;
let told: ToldJobs;
let records: MonitorRecords;
/** How long it takes to apply all objects on this machine. */
let applyMs = 0;

beforeAll(async () => {
  cluster = await startCluster();
  told = await startToldJobs();
  records = recordsOf(useProduct(cluster, SYSTEM, TEAM), TEAM);
  const shut = {
    ...restrictedNamespace(SHUT),
    ...{ metadata: { name: SHUT, annotations: { 'beatkeeper.dev/project': TEAM } } },
  };
  const quota = {
    ...{ apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'no-jobs', namespace: SHUT } },
    spec: { hard: { 'count/jobs.batch': '0' } },
  };
  await cluster.apply(restrictedNamespace(SYSTEM), restrictedNamespace(TEAM), shut, quota);
  const lowered = { extraEnv: [{ name: 'BEATKEEPER_MINIMUM_INTERVAL_SECONDS', value: `${SECONDS}` }] };
  await cluster.helmWith(
    { image: { tag: IMAGE.first }, api: lowered, sweeper: lowered },
    ...['install', 'beatkeeper', CHART, '--namespace', SYSTEM, '--wait', '--timeout', '5m'],
  );
  const connection = connectCluster(cluster.kubeconfig);
  await applyCrds(connection, (crd) => lowerMinimums(crd, SECONDS)).finally(() =>
    connection.transport.close(),
  );
});
afterAll(async () => {
  await told?.close();
  await cluster?.down();
});

const namespaceOf = ({ isShut = false }: AnyCase) => (isShut ? SHUT : TEAM);

/** In half a year. */
const dormant = () => `0 0 1 ${((new Date().getUTCMonth() + 6) % 12) + 1} *`;

/** Every hour in the minutes from this one on. */
const scheduleOf = (firstMs: number, times: number): string => {
  const minutes = Array.from({ length: times }, (_, n) => new Date(firstMs + n * MINUTE_MS).getUTCMinutes());
  return times === 0 ? dormant() : `${minutes.join(',')} * * * *`;
};

/** The workload of a case, and its Monitor if it has one of its own. */
function objectsOf(name: string, one: AnyCase, schedule: string): object[] {
  const metadata = { name, namespace: namespaceOf(one) };
  const labels = { case: name };
  const job = { template: told.template(one.container), ...one.job };
  const type = { apiVersion: 'batch/v1', kind: one.isJob ? 'Job' : 'CronJob' };
  const callback = { kind: 'disabled' };
  const monitors = one.monitor
    ? [monitor(name, metadata.namespace, { callback, workloadRef: { ...type, name }, ...one.monitor })]
    : [];
  if (one.isJob) return [...monitors, { ...type, metadata, spec: job }];
  const annotations = one.monitor ? {} : { 'beatkeeper.dev/monitor': 'true' };
  const spec = {
    schedule,
    timeZone: 'Etc/UTC',
    jobTemplate: { metadata: { labels }, spec: job },
    ...one.cronJob,
  };
  return [...monitors, { ...type, metadata: { ...metadata, annotations }, spec }];
}

/** The first whole minute by which so many steps are surely done. */
const nextMinute = (steps: number) =>
  Math.ceil((Date.now() + steps * (5_000 + 2 * applyMs)) / MINUTE_MS) * MINUTE_MS;

/** The CronJobs of these cases are due from this minute on. */
async function setDue(cases: Readonly<Record<string, AnyCase>>, firstMs: number): Promise<void> {
  const due = Object.entries(cases).filter(([, { isJob = false }]) => !isJob);
  await cluster.apply(...due.flatMap(([name, one]) => objectsOf(name, one, scheduleOf(firstMs, one.times))));
  expect(Date.now(), 'the CronJobs are there in time').toBeLessThan(firstMs);
}

const toolsOf = (name: string, one: AnyCase, firstMs = 0): CaseTools => ({
  ...{ name, namespace: namespaceOf(one), told, cluster, records },
  job: (minute = 1) => `${name}-${firstMs / MINUTE_MS + minute - 1}`,
});

/** Does this for each case at once, and names the case that fails. */
async function forEach<T extends AnyCase>(
  cases: Readonly<Record<string, T>>,
  work: (name: string, one: T) => Promise<void>,
): Promise<void> {
  const named = async ([name, one]: [string, T]) => {
    await work(name, one).catch((error: Error) => {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    });
  };
  await Promise.all(Object.entries(cases).map(named));
}

const untilTold = async (name: string, { observations, incidents }: AnyCase) => {
  await records.untilObserved(name, observations);
  await records.untilIncidents(name, incidents);
};

/** All observations and incidents of the cases, and of nothing else. */
async function expectExactly(cases: Readonly<Record<string, AnyCase>>): Promise<void> {
  const found = await records.read();
  const tableOf = (of: (name: string) => Pick<AnyCase, 'observations' | 'incidents'> | undefined) =>
    Object.keys(cases).map((name) => [name, of(name)?.observations, of(name)?.incidents]);
  expect(tableOf((name) => found.get(name))).toEqual(tableOf((name) => cases[name]));
}

const waitForOperator = () => cluster.kubectl('-n', SYSTEM, 'rollout', 'status', OPERATOR, '--timeout=300s');

describe('Jobs that an operator sees', () => {
  it('each CronJob, annotated or named by a Monitor, has its monitor', async () => {
    const every = Object.entries(ALL).flatMap(([name, one]) => objectsOf(name, one, dormant()));
    const steady = {
      times: 0,
      monitor: { graceSeconds: STEADY_GRACE_SECONDS },
      cronJob: { successfulJobsHistoryLimit: 100 },
    };
    told.let(new RegExp(`^${STEADY}-`));
    const names = [...Object.keys(ALL), STEADY];
    const startedMs = Date.now();
    await cluster.apply(
      ...every,
      ...objectsOf(STEADY, { ...steady, observations: [], incidents: [] }, '* * * * *'),
    );
    applyMs = Date.now() - startedMs;
    const areThere = async () => (await records.read()).size === names.length;
    await waitFor(areThere, { what: 'all monitors', timeoutMs: 300_000, intervalMs: 500 });
    for (const namespace of [TEAM, SHUT]) {
      await cluster.kubectl(
        '-n',
        namespace,
        'wait',
        '--for=condition=Synced',
        'monitor',
        '--all',
        '--timeout=300s',
      );
    }
    expect([...(await records.read()).keys()].sort()).toEqual(names.sort());
  });

  it('each way in which they begin and end has exactly its observations and incidents', async () => {
    const firstMs = nextMinute(1);
    await setDue(WATCHED_CASES, firstMs);
    await forEach(WATCHED_CASES, async (name, one) => {
      await one.act(toolsOf(name, one, firstMs));
      await untilTold(name, one);
    });
    await expectExactly(WATCHED_CASES);
  });

  it('their beats have the times of the Job', async () => {
    const read = (path: string, ...what: string[]) => cluster.read(path, TEAM, ...what);
    const uid = await read('{.items[0].metadata.uid}', 'jobs', '-l', 'case=succeeds');
    const completed = await read('{.items[0].status.completionTime}', 'jobs', '-l', 'case=succeeds');
    const terminated = '{.items[0].status.containerStatuses[0].state.terminated.startedAt}';
    const started = await read(terminated, 'pods', '-l', `batch.kubernetes.io/controller-uid=${uid}`);
    const seconds = (Date.parse(completed) - Date.parse(started)) / 1000;
    expect(await records.observationsOf('succeeds')).toMatchObject([
      { kind: 'start', runId: uid, observedAt: new Date(started).toISOString() },
      {
        kind: 'success',
        runId: uid,
        observedAt: new Date(completed).toISOString(),
        durationSeconds: seconds,
      },
    ]);
  });
});

describe('an operator that is killed while Jobs run', () => {
  it('is replaced by one that tells each of them once', async () => {
    await forEach({ ...KILL_CASES, ...AWAY_CASES }, async (name, one) => one.begin?.(toolsOf(name, one)));
    await cluster.kubectl('-n', SYSTEM, 'delete', 'pods', '-l', OPERATOR_PODS, '--force', '--grace-period=0');
    await forEach(KILL_CASES, (name, one) => one.go(toolsOf(name, one)));
    await waitForOperator();
    await forEach(KILL_CASES, untilTold);
    await expectExactly({ ...WATCHED_CASES, ...KILL_CASES });
  });
});

describe('an operator that is away for longer than deadlines', () => {
  it('tells what is left of Jobs when it is back; nothing is missed that ran, and what is dead is found', async () => {
    const firstMs = nextMinute(3);
    await setDue(AWAY_CASES, firstMs);
    const schedule = scheduleOf(firstMs, AWAY_CASES['away-dead']?.times ?? 0);
    const hasSchedule = async () =>
      (await records.get<{ schedule?: { cron: string } }>('away-dead')).schedule?.cron === schedule;
    await waitFor(hasSchedule, { what: 'the API has the schedules', timeoutMs: 300_000, intervalMs: 500 });
    await cluster.kubectl('-n', SYSTEM, 'scale', OPERATOR, '--replicas=0');
    await cluster.kubectl('-n', SYSTEM, 'wait', '--for=delete', 'pod', '-l', OPERATOR_PODS, '--timeout=300s');
    expect(Date.now(), 'the operator is gone in time').toBeLessThan(firstMs);
    const before = await records.read();
    await forEach(AWAY_CASES, (name, one) => one.go(toolsOf(name, one, firstMs)));
    const deadlineMs = firstMs + STEADY_GRACE_SECONDS * 1000;
    await waitFor(() => Date.now() > deadlineMs + 5_000, { what: 'deadlines have passed', intervalMs: 500 });
    expect(await records.read()).toEqual(before);

    await cluster.kubectl('-n', SYSTEM, 'scale', OPERATOR, '--replicas=2');
    await waitForOperator();
    await forEach(AWAY_CASES, untilTold);
    const [missed] = await records.incidentsOf('away-dead');
    expect(Date.parse(missed?.openedAt ?? '')).toBeGreaterThan(deadlineMs);
    const timeline = await records.timelineOf(missed);
    // That of the killed one may have been long enough to count, too.
    const outage = timeline.findLast(({ type }) => type === 'service_outage')?.detail;
    expect(outage).toMatchObject({ reason: 'no_operator' });
    expect(Date.parse(`${outage?.from}`)).toBeLessThan(firstMs);
    expect(Date.parse(`${outage?.to}`)).toBeGreaterThan(deadlineMs);
  });

  it('nothing was added to any case by then', () => expectExactly(ALL));

  it('a CronJob that ran in every minute has each of its runs, and no incident', async () => {
    const jobs = await cluster.read('{.items[*].metadata.uid}', TEAM, 'jobs', '-l', `case=${STEADY}`);
    const runs = jobs.split(' ');
    expect(runs.length).toBeGreaterThan(3);
    const observations = await records.observationsOf(STEADY);
    // One may have begun just now.
    for (const uid of runs.slice(0, -1)) {
      const own = observations.filter(({ runId }) => runId === uid);
      expect(own.map(({ kind }) => kind)).toEqual(['start', 'success']);
    }
    expect(await records.incidentsOf(STEADY)).toEqual([]);
  });
});

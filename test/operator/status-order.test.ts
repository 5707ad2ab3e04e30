// What no status waits for: beats of others, the details of incidents, and what happens in another project.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiAnswer, type CallOptions, RestClient } from '../../src/client/rest-client.ts';
import type { OperationId, OperationRequest } from '../../src/contract/operations/operations.ts';
import { findCondition } from '../../src/kube/conditions.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createNamespace, hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

interface Call {
  operation: OperationId;
  project: string | undefined;
}

/** Tells of each call before it is sent, and sends it when `before` resolves. */
class WatchedClient extends RestClient {
  readonly #before: (call: Call) => Promise<void>;

  constructor(options: ConstructorParameters<typeof RestClient>[0], before: (call: Call) => Promise<void>) {
    super(options);
    this.#before = before;
  }

  override async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options?: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    await this.#before({ operation, project: options?.project });
    return await super.call(operation, request, options);
  }
}

async function becomesIdle({ registry }: TestOperator, controller: string): Promise<void> {
  const isIdle = async () => {
    const read = (name: string) => metricValue(registry, name, { controller });
    return (await read('workqueue_depth')) + (await read('controller_runtime_active_workers')) === 0;
  };
  await waitFor(isIdle, { what: `nothing waits for the controller ${controller}` });
}

describe.skipIf(!hasCluster)('a status', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());
  const disabled = { callback: { kind: 'disabled' } } as MonitorObject['spec'];
  const names = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
  const healthBecomes = (name: string, health: string) =>
    waitFor(async () => (await fixture.monitor(name)).status?.health === health, {
      what: `${name} is ${health}`,
    });

  it('beats alone are written within the budget of all Monitors, and a failure at once', async () => {
    const operator = await fixture.startOperator({
      resyncMs: 60_000,
      lastBeatPeriodMs: 1,
      beatWritesPerSecond: 0.001,
    });
    const all = names('beating', 20);
    for (const name of all) await fixture.createMonitor(name, { ...disabled, intervalSeconds: 300 });
    for (const name of all) await fixture.monitorBecomes(name, 'Ready', 'True');
    for (const name of all) await fixture.beat(`${name}-beat`);
    for (const name of all) await healthBecomes(name, 'up');
    const writes = () =>
      metricValue(operator.registry, 'beatkeeper_operator_status_writes_total', { kind: 'Monitor' });
    const before = await writes();
    for (const name of all) await fixture.beat(`${name}-beat`);
    await fixture.beat('beating7-beat', '/fail');
    await healthBecomes('beating7', 'down');
    await becomesIdle(operator, 'monitor');
    // One for a beat, one for the failure.
    expect((await writes()) - before).toBeLessThanOrEqual(2);
    await operator.stop();
  });

  it('beats of Monitors whose rule is broken are written within that budget too, and the warning names the value at once', async () => {
    const operator = await fixture.startOperator({
      resyncMs: 60_000,
      lastBeatPeriodMs: 1,
      beatWritesPerSecond: 0.001,
    });
    const all = names('warned', 8);
    const spec = { ...disabled, intervalSeconds: 300, measurements: { rows: { minimum: 10 } } };
    for (const name of all) await fixture.createMonitor(name, spec);
    for (const name of all) await fixture.monitorBecomes(name, 'Ready', 'True');
    const measure = async (name: string) => {
      const { pathname } = new URL((await fixture.secret(`${name}-beat`))?.url ?? '');
      const answer = await fetch(`${fixture.apiFixture.url}${pathname}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ measurements: { rows: 3 } }),
      });
      expect(answer.status).toBe(200);
    };
    for (const name of all) await measure(name);
    for (const name of all) {
      const { status } = await fixture.monitorBecomes(name, 'Healthy', 'False', 'IncidentOpen');
      expect(findCondition(status?.conditions, 'Healthy')?.message).toMatch(
        /^Up: the last beat came at .* An incident of severity warning is open since .*UTC: rows is 3, below its minimum of 10\.$/,
      );
    }
    const writes = () =>
      metricValue(operator.registry, 'beatkeeper_operator_status_writes_total', { kind: 'Monitor' });
    const before = await writes();
    for (const name of all) await measure(name);
    await fixture.beat('warned7-beat', '/fail');
    await healthBecomes('warned7', 'down');
    await becomesIdle(operator, 'monitor');
    // One for a beat, one for the failure.
    expect((await writes()) - before).toBeLessThanOrEqual(2);
    await operator.stop();
  });

  it('the status of a monitor that recovered waits for no details of its incident', async () => {
    const asked = Promise.withResolvers<void>();
    const before = async ({ operation }: Call) =>
      operation === 'getIncident' ? await asked.promise : undefined;
    const operator = await fixture.startOperator({
      makeClient: (options) => new WatchedClient(options, before),
    });
    // More than there are workers.
    const all = names('failing', 12);
    for (const name of all) await fixture.createMonitor(name, { ...disabled, intervalSeconds: 300 });
    for (const name of all) await fixture.monitorBecomes(name, 'Ready', 'True');
    for (const name of all) await fixture.beat(`${name}-beat`, '/fail');
    for (const name of all) await healthBecomes(name, 'down');
    for (const name of all) await fixture.beat(`${name}-beat`);
    for (const name of all) await healthBecomes(name, 'up');
    expect((await fixture.events('failing0')).map(({ reason }) => reason)).not.toContain('IncidentRecovered');
    asked.resolve();
    for (const name of all) {
      const { note } = await fixture.eventAppears(name, 'IncidentRecovered');
      expect(note).toMatch(/^A run failed \(reported_failure, critical\): was open from \S+Z to \S+Z, /);
    }
    await operator.stop();
  });

  it('a Callback that requests the default where it may not provide it wakes no Monitor of another project', async () => {
    const other = await createNamespace(fixture.kube.client);
    const calls: Call[] = [];
    const operator = await fixture.startOperator({
      watchNamespaces: [fixture.namespace, other],
      resyncMs: 600_000,
      defaultCallbackNamespaces: ['elsewhere'],
      makeClient: (options) => new WatchedClient(options, async (call) => void calls.push(call)),
    });
    const metadata = { name: 'theirs', namespace: other };
    await fixture.kube.client.create(MONITORS, { metadata, spec: {} as MonitorObject['spec'] });
    const theirs = () => fixture.kube.client.get(MONITORS, metadata);
    const waits = async () =>
      (await theirs()).status?.conditions?.some(({ reason }) => reason === 'NoOrganizationDefault');
    await waitFor(waits, { what: 'theirs waits for the default' });
    const { projectId } = (await theirs()).status ?? {};
    calls.length = 0;
    await fixture.createCallback('greedy', { organizationDefault: true });
    await fixture.callbackBecomes('greedy', 'Default', 'False', 'NotAllowed');
    for (const controller of ['callback', 'monitor']) await becomesIdle(operator, controller);
    expect(calls.filter(({ project }) => project === projectId)).toEqual([]);
    await operator.stop();
  });

  it('a Callback that becomes ready wakes the Monitors of its project, and none of another', async () => {
    const other = await createNamespace(fixture.kube.client);
    const calls: Call[] = [];
    const operator = await fixture.startOperator({
      watchNamespaces: [fixture.namespace, other],
      resyncMs: 600_000,
      makeClient: (options) => new WatchedClient(options, async (call) => void calls.push(call)),
    });
    const spec = { callback: { kind: 'named', alias: 'later' } } as MonitorObject['spec'];
    await fixture.createMonitor('ours', spec);
    await fixture.kube.client.create(MONITORS, { metadata: { name: 'theirs', namespace: other }, spec });
    const theirs = () => fixture.kube.client.get(MONITORS, { namespace: other, name: 'theirs' });
    const waits = async () =>
      (await theirs()).status?.conditions?.some(({ reason }) => reason === 'CallbackNotFound');
    await waitFor(waits, { what: 'theirs waits for its endpoint' });
    const { projectId } = (await theirs()).status ?? {};
    await fixture.monitorBecomes('ours', 'Ready', 'False', 'CallbackNotFound');
    calls.length = 0;
    await fixture.createCallback('later');
    await fixture.monitorBecomes('ours', 'Ready', 'True');
    expect(calls.filter(({ project }) => project === projectId)).toEqual([]);
    await operator.stop();
  });
});

// The metrics of Monitors on the operator that works: from real objects, beats and incidents.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { registerMonitorMetrics } from '../../src/operator/monitor-metrics.ts';
import { createNamespace, hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { intervalSeconds: 300, callback: { kind: 'disabled' } };

/** As the role does it. */
function withMetrics(operator: TestOperator): TestOperator {
  registerMonitorMetrics(operator.registry, { list: () => operator.runtime.followedMonitors, max: 100 });
  return operator;
}

/** The samples of a Monitor, without the prefix of their names. */
async function samplesOf({ registry }: TestOperator, namespace: string, name: string): Promise<string[]> {
  const who = `namespace="${namespace}",name="${name}"`;
  const lines = (await registry.metrics()).match(/^beatkeeper_monitor_.*$/gm) ?? [];
  const own = lines.filter((line) => line.includes(`{${who}`));
  return own.map((line) =>
    line.slice('beatkeeper_monitor_'.length).replace(`{${who}}`, '').replace(`${who},`, ''),
  );
}

describe.skipIf(!hasCluster)('the metrics of Monitors', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  it('they follow beats and incidents, and end with the object', async () => {
    const operator = withMetrics(await fixture.startOperator());
    const { namespace } = fixture;
    const samples = () => samplesOf(operator, namespace, 'backup');
    await fixture.createMonitor('backup', disabled);
    await fixture.monitorBecomes('backup', 'Ready', 'True');
    expect(await samples()).toEqual(['health{health="waiting"} 1']);
    await fixture.beat('backup-beat', '/start');
    await fixture.beat('backup-beat', '/fail');
    await waitFor(async () => (await samples()).includes('health{health="down"} 1'), { what: 'it is down' });
    const { status } = await fixture.apiFixture.manage
      .as(fixture.apiFixture.tokens.operator, namespace)
      .expectSuccess('getMonitor', {
        params: { monitorId: (await fixture.monitor('backup')).status?.monitorId ?? '' },
      })
      .then(({ body }) => body);
    const seconds = (time = '') => Date.parse(time) / 1000;
    expect(await samples()).toEqual([
      'health{health="down"} 1',
      `last_beat_timestamp_seconds ${seconds(status.lastBeatAt)}`,
      `next_deadline_timestamp_seconds ${seconds(status.nextDeadlineAt)}`,
      `last_run_duration_seconds ${status.lastDurationSeconds}`,
      'open_incidents{kind="reported_failure",severity="critical"} 1',
    ]);
    await fixture.beat('backup-beat');
    await waitFor(async () => (await samples()).includes('health{health="up"} 1'), { what: 'it is up' });
    expect((await samples()).filter((line) => line.startsWith('open_incidents'))).toEqual([]);
    await fixture.kube.client.delete(MONITORS, { namespace, name: 'backup' });
    await waitFor(async () => (await samples()).length === 0, { what: 'the series are gone' });
    await operator.stop();
  });

  it('a standby and an operator that has ended its work have none', async () => {
    const { namespace } = fixture;
    await fixture.createMonitor('served', disabled);
    const leader = withMetrics(await fixture.startOperator());
    await fixture.monitorBecomes('served', 'Ready', 'True');
    const standby = withMetrics(await fixture.startOperator({ isStandby: true }));
    await waitFor(async () => (await samplesOf(leader, namespace, 'served')).length > 0, {
      what: 'the leader serves them',
    });
    expect((await standby.registry.metrics()).match(/^beatkeeper_monitor_.*$/gm)).toBeNull();
    await leader.runtime.stopWork(5_000);
    expect((await leader.registry.metrics()).match(/^beatkeeper_monitor_.*$/gm)).toBeNull();
    await standby.runtime.startWork();
    await waitFor(async () => (await samplesOf(standby, namespace, 'served')).length > 0, {
      what: 'the next leader serves them',
    });
    await standby.stop();
  });

  it("an object whose annotation and status name another project's monitor shows nothing of it", async () => {
    const { client } = fixture.kube;
    const { namespace } = fixture;
    const other = await createNamespace(client);
    const watched = { watchNamespaces: [namespace, other] };
    const operator = withMetrics(await fixture.startOperator(watched));
    const spec = disabled as MonitorObject['spec'];
    await client.create(MONITORS, { metadata: { name: 'theirs', namespace: other }, spec });
    const theirs = await waitFor(
      async () => {
        const { status } = await client.get(MONITORS, { namespace: other, name: 'theirs' });
        return status?.configurationVersion === undefined ? undefined : status;
      },
      { what: 'their Monitor has its status' },
    );
    const { projectId, monitorId } = theirs;
    const path = new URL(
      (
        await fixture.apiFixture.manage
          .as(fixture.apiFixture.tokens.operator, other)
          .expectSuccess('getMonitor', { params: { monitorId: monitorId ?? '' } })
      ).body.publishUrl ?? '',
    ).pathname;
    await fetch(`${fixture.apiFixture.url}${path}/fail`);
    await waitFor(
      async () => (await samplesOf(operator, other, 'theirs')).includes('health{health="down"} 1'),
      {
        what: 'theirs is down',
      },
    );
    const annotations = { 'beatkeeper.dev/monitor-id': monitorId ?? '' };
    await fixture.createMonitor('spy', disabled, { annotations });
    const forged = JSON.stringify({ status: { projectId, monitorId } });
    await fixture.kubectl(['patch', 'mon', 'spy', '--type=merge', '--subresource=status', '-p', forged]);
    // The id is free in the project of the forger: it gets a monitor of its own there.
    await fixture.monitorBecomes('spy', 'Ready', 'True');
    expect(await samplesOf(operator, namespace, 'spy')).toEqual(['health{health="waiting"} 1']);
    expect(await samplesOf(operator, other, 'theirs')).toContain('health{health="down"} 1');
    await operator.stop();
  });
});

// The metrics of Monitors, as a scrape reads them.
import { setImmediate } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import type { MonitorStatus } from '../../../src/contract/resources/monitor.ts';
import type { FollowedMonitor } from '../../../src/operator/kinds/monitor/followed-monitors.ts';
import { chooseMonitors, registerMonitorMetrics } from '../../../src/operator/monitor-metrics.ts';

const cadence = { source: 'configured', intervalSeconds: 300 } as const;
const waiting: MonitorStatus = { health: 'waiting', lastSequence: 0, cadence, openIncidents: [] };
const incident = (kind: 'missed_deadline' | 'reported_failure', incidentId: string) => ({
  ...{ kind, incidentId, state: 'open', severity: 'critical', openedAt: '2026-01-31T09:00:00.000Z' },
});
const monitorOf = (
  name: string,
  status: object = {},
  more: Partial<FollowedMonitor> = {},
): FollowedMonitor => ({
  ...{ namespace: 'payments', name, age: name },
  status: { ...waiting, ...status } as MonitorStatus,
  ...more,
});
const many = (namespace: string, count: number) =>
  Array.from({ length: count }, (_, index) =>
    monitorOf(`m${String(index).padStart(5, '0')}`, {}, { namespace }),
  );

/** The samples of a scrape, without help and types. */
async function scrape(list: () => FollowedMonitor[] | undefined, max = 100): Promise<string[]> {
  const registry = new Registry();
  registerMonitorMetrics(registry, { list, max });
  return (await registry.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

describe('the metrics of Monitors', () => {
  it('a Monitor has its health, times, duration, and open incidents by kind and severity', async () => {
    const backup = monitorOf('backup', {
      health: 'down',
      lastBeatAt: '2026-01-31T08:00:00.500Z',
      nextDeadlineAt: '2026-01-31T10:00:00.000Z',
      lastDurationSeconds: 42.5,
      openIncidents: [incident('missed_deadline', 'a'), incident('reported_failure', 'b')],
    });
    const who = 'namespace="payments",name="backup"';
    expect(await scrape(() => [backup])).toEqual([
      `beatkeeper_monitor_health{${who},health="down"} 1`,
      `beatkeeper_monitor_last_beat_timestamp_seconds{${who}} 1769846400.5`,
      `beatkeeper_monitor_next_deadline_timestamp_seconds{${who}} 1769853600`,
      `beatkeeper_monitor_last_run_duration_seconds{${who}} 42.5`,
      `beatkeeper_monitor_open_incidents{${who},kind="missed_deadline",severity="critical"} 1`,
      `beatkeeper_monitor_open_incidents{${who},kind="reported_failure",severity="critical"} 1`,
      'beatkeeper_monitor_series_omitted 0',
    ]);
  });

  it('a Monitor without beats has its health alone, and a label is escaped', async () => {
    expect(await scrape(() => [monitorOf('a"b\\c\nd')])).toEqual([
      'beatkeeper_monitor_health{namespace="payments",name="a\\"b\\\\c\\nd",health="waiting"} 1',
      'beatkeeper_monitor_series_omitted 0',
    ]);
  });

  it('each scrape shows what is known then, and a standby shows nothing', async () => {
    const registry = new Registry();
    let list: FollowedMonitor[] | undefined = [monitorOf('a'), monitorOf('b')];
    registerMonitorMetrics(registry, { list: () => list, max: 1 });
    const samples = async () => (await registry.metrics()).match(/^beatkeeper_.*$/gm);
    expect(await samples()).toContain('beatkeeper_monitor_series_omitted 1');
    list = [monitorOf('c', { health: 'up' })];
    expect(await samples()).toEqual([
      'beatkeeper_monitor_health{namespace="payments",name="c",health="up"} 1',
      'beatkeeper_monitor_series_omitted 0',
    ]);
    list = undefined;
    expect(await samples()).toBeNull();
  });

  it('a scrape of 20,000 Monitors lets other work have its turn between the metrics', async () => {
    let turns = 0;
    let isDone = false;
    const others = async () => {
      while (!isDone) {
        await setImmediate();
        turns += 1;
      }
    };
    const running = others();
    const samples = await scrape(() => many('payments', 20_000), 20_000);
    isDone = true;
    await running;
    expect(samples).toHaveLength(20_001);
    expect(turns).toBeGreaterThanOrEqual(6);
  });
});

describe('Monitors above the maximum', () => {
  const namesIn = (namespace: string, monitors: readonly FollowedMonitor[]) =>
    monitors.filter((one) => one.namespace === namespace).map(({ name }) => name);

  it('a namespace with very many takes no place of another one, and each keeps its oldest', () => {
    const { monitors, omitted } = chooseMonitors([...many('crowd', 100).reverse(), ...many('few', 3)], 10);
    expect(omitted).toBe(93);
    expect(namesIn('few', monitors)).toEqual(['m00000', 'm00001', 'm00002']);
    expect(namesIn('crowd', monitors)).toEqual(many('crowd', 7).map(({ name }) => name));
  });

  it('the choice is the same whatever the order, and a new Monitor ends the series of no older one', () => {
    const crowd = many('crowd', 50);
    const others = many('others', 50);
    const chosen = (list: FollowedMonitor[]) =>
      chooseMonitors(list, 20).monitors.map(({ namespace, name }) => `${namespace}/${name}`);
    const before = chosen([...crowd, ...others]);
    const young = monitorOf('young', {}, { namespace: 'crowd', age: 'n' });
    expect(chosen([...others.toReversed(), young, ...crowd.toReversed()])).toEqual(before);
  });

  it('nothing is omitted up to the maximum', () => {
    expect(chooseMonitors(many('payments', 10), 10)).toMatchObject({ omitted: 0 });
    expect(chooseMonitors(many('payments', 11), 10)).toMatchObject({ omitted: 1 });
  });
});

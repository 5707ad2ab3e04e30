// What is told of monitors that cannot be woken.
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { MonitorFaults } from '../../../src/sweeper/deadlines/monitor-faults.ts';
import { createSweeperMetrics } from '../../../src/sweeper/sweeper-metrics.ts';

const HOUR_MS = 3_600_000;

function setUp() {
  const lines: object[] = [];
  const metrics = createSweeperMetrics(new Registry());
  let nowMs = 0;
  const log = { error: (fields: object) => void lines.push(fields) };
  const faults = new MonitorFaults({ log: log as never, metrics }, () => nowMs);
  const counted = async () => (await metrics.monitorFaults.get()).values[0]?.value;
  return { faults, lines, counted, pass: (ms: number) => (nowMs += ms) };
}

it('each fault is counted, and one of a monitor is logged in an hour', async () => {
  const { faults, lines, counted, pass } = setUp();
  const place = { projectId: 'p', monitorKey: 'm' };
  const meet = () => faults.record(place, new Error('refused'), 'It failed.');
  for (let seconds = 0; seconds < 3_600; seconds += 5, pass(5_000)) meet();
  expect(lines).toEqual([{ ...place, err: new Error('refused') }]);
  expect(await counted()).toBe(720);
  meet();
  expect(lines).toHaveLength(2);
  // Another monitor, and the project as a whole, have lines of their own.
  faults.record({ ...place, monitorKey: 'other' }, 'err', 'It failed.');
  faults.record({ projectId: 'p' }, 'err', 'It failed.');
  expect(lines).toHaveLength(4);
});

it('no more than so many monitors are remembered: the one that was logged first is logged again', () => {
  const { faults, lines, pass } = setUp();
  const meet = (name: number) =>
    faults.record({ projectId: 'p', monitorKey: String(name) }, 'err', 'It failed.');
  for (let name = 0; name <= 10_000; name += 1) meet(name);
  expect(lines).toHaveLength(10_001);
  meet(1);
  expect(lines).toHaveLength(10_001);
  meet(0);
  expect(lines).toHaveLength(10_002);
  pass(HOUR_MS);
  meet(5);
  expect(lines).toHaveLength(10_003);
});

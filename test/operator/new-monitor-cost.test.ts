// What a new Monitor costs the API server and the API: each write and each call, counted.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Crash } from './crashing-clients.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

let fixture: OperatorFixture;
beforeAll(async () => {
  fixture = await openOperatorFixture();
});
afterAll(() => fixture?.close());

it('a new Monitor is three writes to Kubernetes beside its Event, and one call of the API', async () => {
  const counter = new Crash(Number.POSITIVE_INFINITY, 'before');
  const operator = await fixture.startOperator(counter.clients);
  // The project is made with the first one.
  await fixture.createMonitor('first', { callback: { kind: 'disabled' } });
  await fixture.monitorBecomes('first', 'Ready', 'True');
  const [writes, calls] = [counter.writes.length, new Map(operator.calls)];
  await fixture.createMonitor('second', {
    intervalSeconds: 300,
    labels: { team: 'storage' },
    callback: { kind: 'disabled' },
  });
  await fixture.monitorBecomes('second', 'Ready', 'True');
  await fixture.eventAppears('second', 'Created');
  const objects = `/namespaces/${fixture.namespace}`;
  expect(counter.writes.slice(writes)).toEqual([
    `PATCH /apis/beatkeeper.dev/v1alpha1${objects}/monitors/second`,
    'createMonitor',
    `POST /api/v1${objects}/secrets`,
    `PATCH /apis/beatkeeper.dev/v1alpha1${objects}/monitors/second/status`,
  ]);
  const made = [...operator.calls]
    .map(([operation, count]): [string, number] => [operation, count - (calls.get(operation) ?? 0)])
    .filter(([operation, count]) => count > 0 && operation !== 'getStatusFeed');
  expect(made).toEqual([['createMonitor', 1]]);
});

// A status with values that the operator never writes: the API server refuses most of them, and none holds up the objects
// of another namespace. Each test forges while no operator runs, so that the first pass finds the forged status.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createNamespace, hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const incidents = (count: number, name: string) =>
  Array.from({ length: count }, (_, i) => ({
    ...{ incidentId: `${name}-${i}`, kind: 'missed_deadline', state: 'open', severity: 'critical' },
    openedAt: '2026-01-31T09:00:00Z',
  }));

describe.skipIf(!hasCluster)('a status with values that nobody would write', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  let other: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    other = await createNamespace(fixture.kube.client);
    operator = await start();
    await fixture.createMonitor('job', { callback: { kind: 'disabled' } });
    await fixture.createCallback('pager');
    await fixture.monitorBecomes('job', 'Ready', 'True');
    await fixture.callbackBecomes('pager', 'Ready', 'True');
  });
  afterAll(() => fixture.close());

  const start = () => fixture.startOperator({ watchNamespaces: [fixture.namespace, other] });
  const forge = (kind: 'mon' | 'cb', name: string, status: object) =>
    fixture.kubectl([
      ...['patch', kind, name, '--subresource=status', '--type=merge'],
      ...['-p', JSON.stringify({ status })],
    ]);
  const readyElsewhere = async (name: string) => {
    const spec = { callback: { kind: 'disabled' } } as MonitorObject['spec'];
    const ref = { namespace: other, name };
    await fixture.kube.client.create(MONITORS, { metadata: ref, spec });
    const isReady = async () =>
      (await fixture.kube.client.get(MONITORS, ref)).status?.conditions?.some(
        ({ type, status }) => type === 'Ready' && status === 'True',
      );
    await waitFor(isReady, { what: `${name} in the other namespace is Ready` });
  };

  it.each<['mon' | 'cb', string, object]>([
    ['mon', 'a project with a control character', { projectId: 'x\ny' }],
    ['mon', 'a project that is no UUID', { projectId: 'Garden' }],
    ['mon', 'an id with a control character', { monitorId: 'x\ny' }],
    ['mon', 'an id that is too long', { monitorId: 'a'.repeat(129) }],
    ['mon', 'a path for the name of a Secret', { publishSecretRef: { name: '../pods/x' } }],
    ['mon', 'hundreds of incidents', { openIncidents: incidents(800, 'inc') }],
    ['cb', 'a project with a control character', { projectId: 'x\ny' }],
    ['cb', 'an id with a control character', { endpointId: 'x\ny' }],
    ['cb', 'an id that is too long', { endpointId: 'a'.repeat(129) }],
    ['cb', 'a path for the name of a Secret', { signingSecretRef: { name: '../pods/x' } }],
  ])(
    'the API server refuses in the status of a %s %s, and a new object elsewhere becomes Ready',
    async (kind, what, status) => {
      const { code, stderr } = await forge(kind, kind === 'mon' ? 'job' : 'pager', status);
      expect([code, stderr]).toEqual([1, expect.stringContaining('is invalid')]);
      await readyElsewhere(`${kind}-${what.toLowerCase().replaceAll(' ', '-')}`);
    },
  );

  it('forged incidents, ids and projects of the right form hold up no object elsewhere, and cost few calls', async () => {
    const names = Array.from({ length: 8 }, (_, i) => `job-${i}`);
    for (const name of names) await fixture.createMonitor(name, { callback: { kind: 'disabled' } });
    for (const name of names) await fixture.monitorBecomes(name, 'Ready', 'True');
    await operator.stop();
    for (const [i, name] of names.entries()) {
      const former = { projectId: crypto.randomUUID(), monitorId: 'a'.repeat(128) };
      const status = { openIncidents: incidents(25, name), ...(i % 2 === 0 ? former : {}) };
      expect(await forge('mon', name, status)).toMatchObject({ code: 0 });
    }
    operator = await start();
    await readyElsewhere('beside-incidents');
    await waitFor(
      async () => {
        const all = await Promise.all(names.map((name) => fixture.monitor(name)));
        return all.every(
          ({ status }) => status?.openIncidents === undefined && status?.monitorId?.length === 36,
        );
      },
      { what: 'each status is right again' },
    );
    expect(operator.calls.get('getIncident')).toBeLessThanOrEqual(8 * 25);
  });
});

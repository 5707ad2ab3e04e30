// A Monitor that is made again with another jurisdiction, whose monitors are in another database: it never has two monitors
// of which nobody is told (docs/contract/kubernetes.md, "Origin" and "Orphans").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('a Monitor that is made again with another jurisdiction', () => {
  let residence: ResidenceFixture;
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    residence = await openResidenceFixture();
    const namespace = `residence-${randomUUID().slice(0, 8)}`;
    const other = { kubeconfig: adminKubeconfig, namespace, apiFixture: residence };
    fixture = await openOperatorFixture(other);
    operator = await fixture.startOperator({ resyncMs: 300 });
  });
  afterAll(async () => {
    await fixture?.close();
    await residence?.close();
  });
  beforeEach(() => residence.restore());

  const create = (name: string, jurisdiction: string) =>
    fixture.createMonitor(name, { callback: { kind: 'disabled' }, jurisdiction });
  const make = async (name: string, jurisdiction: string) => {
    await create(name, jurisdiction);
    return (await fixture.monitorBecomes(name, 'Ready', 'True')).status?.monitorId ?? '';
  };
  const read = async (monitorId: string) =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body;
  const monitorsOf = async (name: string) => {
    const query = { origin: `Monitor/${fixture.namespace}/${name}` };
    const { body } = await fixture.api.expectSuccess('listMonitors', { query });
    return body.items.map(({ monitorId }) => monitorId);
  };
  /** As an uninstall and a deletion after it leave it. */
  const lose = async (name: string) => {
    await operator.stop();
    const ref = { namespace: fixture.namespace, name };
    await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { finalizers: null } });
    await fixture.kube.client.delete(MONITORS, ref);
  };

  it('leaves the archived one without its origin, and gets its own', async () => {
    const before = await make('moved', 'eu');
    expect(await fixture.kubectl(['delete', 'mon', 'moved', '--timeout=200s'])).toMatchObject({ code: 0 });
    const after = await make('moved', 'us');
    expect(after).not.toBe(before);
    expect(await read(before)).toMatchObject({ lifecycle: 'archived' });
    expect(await monitorsOf('moved')).toEqual([after]);
  });

  it('is refused while the one of before is active, and nothing is made', async () => {
    const before = await make('active', 'eu');
    await lose('active');
    await create('active', 'us');
    operator = await fixture.startOperator({ resyncMs: 300 });
    const { status } = await fixture.monitorBecomes('active', 'Ready', 'False', 'Refused');
    expect(JSON.stringify(status?.conditions)).toContain(`${before} is in the jurisdiction eu`);
    expect(await monitorsOf('active')).toEqual([before]);
  });

  it('gets its own while the database of the other jurisdiction is away, and the one of before is orphaned then', async () => {
    const before = await make('apart', 'eu');
    await lose('apart');
    await residence.proxies.eu.refuse();
    await create('apart', 'us');
    operator = await fixture.startOperator({ resyncMs: 300 });
    const isMade = async () => {
      const query = { origin: `Monitor/${fixture.namespace}/apart`, jurisdiction: 'us' };
      const { body } = await fixture.api.expectSuccess('listMonitors', { query });
      return body.items[0]?.monitorId;
    };
    const after = await waitFor(isMade, { what: 'it is made' });
    await residence.restore();
    await waitFor(async () => (await read(before)).origin?.orphanedAt, { what: 'it is orphaned' });
    expect((await read(after)).origin?.orphanedAt).toBeUndefined();
    await fixture.monitorBecomes('apart', 'Ready', 'True');
  });
});

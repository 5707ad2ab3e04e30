// Monitors that were made before their jurisdiction had a database of its own: how they get there (docs/operations.md,
// "Databases of jurisdictions").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('a Monitor from before its jurisdiction had a database', () => {
  let residence: ResidenceFixture;
  let fixture: OperatorFixture;
  beforeAll(async () => {
    residence = await openResidenceFixture();
    const namespace = `added-${randomUUID().slice(0, 8)}`;
    const other = { kubeconfig: adminKubeconfig, namespace, apiFixture: residence };
    fixture = await openOperatorFixture(other);
    await fixture.startOperator({ resyncMs: 300 });
  });
  afterAll(async () => {
    await fixture?.close();
    await residence?.close();
  });

  const objectOf = (name: string, jurisdiction: string) => ({
    apiVersion: 'beatkeeper.dev/v1alpha1',
    kind: 'Monitor',
    metadata: { name },
    spec: { callback: { kind: 'disabled' }, jurisdiction },
  });
  const kubectl = async (args: string[], input?: string) =>
    expect(await fixture.kubectl(args, input)).toMatchObject({ code: 0 });
  /** The databases that have a monitor of this name. */
  const homesOf = async (name: string) => {
    const databases = { default: residence.pool, eu: residence.eu };
    const has = async (pool: ResidenceFixture['pool']) =>
      (await pool.query('select from monitors where name = $1', [name])).rowCount !== 0;
    const found: string[] = [];
    for (const [home, pool] of Object.entries(databases)) if (await has(pool)) found.push(home);
    return found;
  };
  /** As a deletion before the setting leaves it: archived, in the default database. */
  const archiveBefore = async (name: string) => {
    await kubectl(['apply', '-f', '-'], JSON.stringify(objectOf(name, 'us')));
    const { status } = await fixture.monitorBecomes(name, 'Ready', 'True');
    await kubectl(['delete', 'mon', name, '--timeout=200s']);
    await residence.pool.query(`update monitors set jurisdiction = 'eu' where name = $1`, [name]);
    return status?.monitorId ?? '';
  };

  it('does not take the archived monitor in the default database for its own, and gets one when that is deleted', async () => {
    const monitorId = await archiveBefore('backup');
    await kubectl(['apply', '-f', '-'], JSON.stringify(objectOf('backup', 'eu')));
    const isRefused = async () =>
      (await fixture.monitor('backup')).status?.conditions?.some(
        ({ type, status, message }) =>
          type === 'Synced' && status === 'False' && message.includes('service.not_found'),
      );
    await waitFor(isRefused, { what: 'the Monitor says that it has no monitor' });
    expect(await homesOf('backup')).toEqual(['default']);
    const params = { monitorId };
    const { etag } = await fixture.api.expectSuccess('getMonitor', { params });
    await fixture.api.expectSuccess('deleteMonitor', { params, ifMatch: etag });
    await fixture.monitorBecomes('backup', 'Ready', 'True');
    expect(await homesOf('backup')).toEqual(['eu']);
  });
});

// A leading operator loses its Lease while it works: it ends before the next one leads, writes nothing beside that one, and
// that one completes the work. Both are processes with their own times.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { type OperatorProcess, startOperatorProcess } from './operator-process.ts';

const LEASES: KubeResource<KubeObject & { spec?: { holderIdentity?: string } }> = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('a leading operator that loses its Lease', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const lease = () => ({ namespace: fixture.namespace, name: 'beatkeeper-operator' });
  /** Somebody else holds it, and renews it no more. */
  const steal = async () => {
    const spec = {
      holderIdentity: 'robber',
      leaseDurationSeconds: 13,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    };
    await fixture.kube.client.mergePatch(LEASES, lease(), { spec });
  };
  const losesRenewals = async ({ gate }: OperatorProcess) => {
    gate.before = ({ path }) => (path.includes('/leases') ? new Promise(() => undefined) : undefined);
  };

  it.each([
    { how: 'because another one takes it', prefix: 'stolen', lose: steal },
    {
      how: 'because its renewals get no answer while all else goes through',
      prefix: 'cut',
      lose: losesRenewals,
    },
  ])(
    '$how ends and writes nothing beside the next leader, which completes what was under way',
    async ({ prefix, lose }) => {
      const first = await startOperatorProcess(fixture);
      await waitFor(first.isLeading, { what: 'the first one leads' });
      const second = await startOperatorProcess(fixture);
      const changed = `${prefix}-changed`;
      await fixture.createMonitor(changed, { graceSeconds: 120, ...disabled });
      const { status } = await fixture.monitorBecomes(changed, 'Ready', 'True');
      // In the middle of a change when it loses the Lease.
      const held = Promise.withResolvers<void>();
      first.api.hold = (path) => {
        if (!path.startsWith(`/v1/monitors/${status?.monitorId}`)) return undefined;
        held.resolve();
        return first.exited;
      };
      const ref = { namespace: fixture.namespace, name: changed };
      await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 333 } });
      await held.promise;
      await lose(first);
      // It has always something to write.
      const names: string[] = [];
      let isLed = false;
      const making = (async () => {
        while (!isLed) {
          const name = `${prefix}-${names.length}`;
          await fixture.createMonitor(name, disabled);
          names.push(name);
          await waitFor(() => isLed || names.length < 60, { what: 'the second one leads' });
        }
      })();
      expect(await first.exited).toBe(1);
      await waitFor(second.isLeading, { what: 'the second one leads' });
      isLed = true;
      await making;

      expect(first.said('Lost the leadership.')).toHaveLength(1);
      expect(first.said('The lease was lost: the operator ends.')[0]?.level).toBe('error');
      expect(second.said('Became the leader.')).toHaveLength(1);
      for (const name of names) await fixture.monitorBecomes(name, 'Ready', 'True');
      await fixture.monitorBecomes(changed, 'Synced', 'True');
      expect(first.gate.writes.length).toBeGreaterThan(names.length > 0 ? 1 : 0);
      const last = Math.max(...first.gate.writes.map(({ startedAtMs }) => startedAtMs));
      const next = Math.min(...second.gate.writes.map(({ startedAtMs }) => startedAtMs));
      expect(last).toBeLessThan(next);

      const { rows } = await fixture.apiFixture.pool.query(
        'select name, count(*)::int as n from monitors where name like $1 group by name',
        [`${prefix}-%`],
      );
      expect(rows).toHaveLength(names.length + 1);
      expect(rows.every(({ n }) => n === 1)).toBe(true);
      const params = { monitorId: status?.monitorId ?? '' };
      expect((await fixture.api.expectSuccess('getMonitor', { params })).body.graceSeconds).toBe(333);
      const secrets = [first, second].flatMap(({ gate }) => gate.stored('POST', '/secrets'));
      const ofThese = secrets.filter(({ body }) => body.includes(`"name":"${prefix}-`));
      expect(ofThese).toHaveLength(names.length + 1);
      await first.close();
      await second.close();
    },
  );
});

// An operator whose calls an api of the version before answers, as during an upgrade, when both versions run.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { extractFormerVersion, type FormerVersion } from '../e2e/former-version.ts';
import { hasCluster } from '../kube/cluster.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { type RoleProcess, startRole } from '../support/role-process.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const SCHEDULES = [{ cron: '0 3 * * 0', timeZone: 'UTC', durationSeconds: 3_600 }];
const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator at an api of the version before', () => {
  let former: FormerVersion;
  let fixture: OperatorFixture;
  let olderApi: RoleProcess;
  let proxy: RefusingProxy;

  beforeAll(async () => {
    [former, fixture] = await Promise.all([extractFormerVersion(), openOperatorFixture()]);
    const { databaseUrl, issuer } = fixture.apiFixture;
    const roles = { operator: 'operator' } as const;
    const trusted = issuer.trusted({
      organization: 'acme',
      organizationClaim: 'org',
      roleClaim: 'role',
      roles,
    });
    const env = {
      DATABASE_URL: databaseUrl,
      BEATKEEPER_ENCRYPTION_KEYS: `${ENCRYPTION_KEY.id}:${ENCRYPTION_KEY.key.toString('base64')}`,
      BEATKEEPER_ISSUERS: JSON.stringify([trusted]),
    };
    olderApi = await startRole('api', env, undefined, former.folder);
    proxy = await RefusingProxy.start(olderApi.url);
    await fixture.startOperator({ apiUrl: proxy.url });
  });
  afterAll(async () => {
    await fixture?.close();
    await proxy?.close();
    await olderApi?.close();
    await former?.remove();
  });

  const schedulesOf = async (name: string) => {
    const monitorId = (await fixture.monitor(name)).status?.monitorId ?? '';
    const { body } = await fixture.api.expectSuccess('getMonitor', { params: { monitorId } });
    return body.maintenanceSchedules;
  };

  it('tries a field again that the api does not know, and has it set once the upgrade is done', async () => {
    await fixture.createMonitor('known', disabled);
    await fixture.monitorBecomes('known', 'Ready', 'True');
    const ref = { namespace: fixture.namespace, name: 'known' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { maintenanceSchedules: SCHEDULES } });
    await fixture.createMonitor('made', { maintenanceSchedules: SCHEDULES, ...disabled });
    for (const name of ['known', 'made']) {
      const isTold = async () => {
        const { conditions = [] } = (await fixture.monitor(name)).status ?? {};
        expect(conditions.filter(({ type }) => type === 'Stalled')).toEqual([]);
        return conditions.some(
          ({ type, reason, message }) =>
            type === 'Synced' &&
            reason === 'ApiUnavailable' &&
            message.includes('maintenanceSchedules') &&
            message.includes('An api of an older version has answered'),
        );
      };
      await waitFor(isTold, { what: `${name} says that the api is older` });
    }
    expect((await fixture.monitor('known')).status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', status: 'True' }),
    );

    proxy.moveTo(fixture.apiFixture.url);
    for (const name of ['known', 'made']) {
      await fixture.monitorBecomes(name, 'Synced', 'True');
      await fixture.monitorBecomes(name, 'Ready', 'True');
      expect(await schedulesOf(name)).toEqual(SCHEDULES);
    }
  });
});

// Handing on the default endpoint: the former Callback shows it at once, and a namespace that loses the right loses it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { nextSecond, type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('the default endpoint', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());
  const shown = async (name: string) => (await fixture.callback(name)).status?.isOrganizationDefault;

  it('when a Callback gives up the default its status shows it at once, before the next resync', async () => {
    // An hour: only the change itself can cause the new status.
    const operator = await fixture.startOperator({
      resyncMs: 3_600_000,
      defaultCallbackNamespaces: [fixture.namespace],
    });
    await fixture.createCallback('first', { organizationDefault: true });
    await nextSecond(await fixture.callbackBecomes('first', 'Default', 'True'));
    await fixture.createCallback('second', { organizationDefault: true });
    await fixture.callbackBecomes('second', 'Default', 'False', 'OlderExists');
    const spec = { organizationDefault: false };
    await fixture.kube.client.mergePatch(
      CALLBACKS,
      { namespace: fixture.namespace, name: 'first' },
      { spec },
    );
    await fixture.callbackBecomes('second', 'Default', 'True');
    await waitFor(async () => (await shown('first')) === false, {
      what: 'the first one is no longer the default',
    });
    await operator.stop();
  });

  it('a Callback loses the default when its namespace is no longer allowed to give it', async () => {
    const operator = await fixture.startOperator({ defaultCallbackNamespaces: ['elsewhere'] });
    const second = await fixture.callbackBecomes('second', 'Default', 'False', 'NotAllowed');
    const params = { endpointId: second.status?.endpointId ?? '' };
    const { body } = await fixture.api.expectSuccess('getCallback', { params });
    expect(body.isOrganizationDefault).toBe(false);
    expect(await shown('second')).toBe(false);
    await operator.stop();
  });

  it('a Callback of a namespace that may not give the default does not clear one that was set through the API', async () => {
    const operator = await fixture.startOperator({ defaultCallbackNamespaces: ['elsewhere'] });
    await fixture.createCallback('chosen');
    const { status } = await fixture.callbackBecomes('chosen', 'Ready', 'True');
    const endpointId = status?.endpointId ?? '';
    await fixture.api.expectSuccess('setDefaultCallback', { body: { endpointId } });
    for (const organizationDefault of [false, true]) {
      const ref = { namespace: fixture.namespace, name: 'chosen' };
      await fixture.kube.client.mergePatch(CALLBACKS, ref, { spec: { organizationDefault } });
      await fixture.callbackBecomes('chosen', 'Synced', 'True');
      const { body } = await fixture.api.expectSuccess('getCallback', { params: { endpointId } });
      expect(body.isOrganizationDefault).toBe(true);
    }
    await operator.stop();
  });
});

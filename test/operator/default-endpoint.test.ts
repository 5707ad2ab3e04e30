// The default endpoint handed on: who let go of it says so at once, and a namespace that lost the right loses it.
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

  it('is shown at one Callback alone, also before the next look at the one that let go', async () => {
    // An hour: nothing but the change itself brings the status about.
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
    await waitFor(async () => (await shown('first')) === false, { what: 'the first one shows it no more' });
    await operator.stop();
  });

  it('ends with the right of its namespace to give it', async () => {
    const operator = await fixture.startOperator({ defaultCallbackNamespaces: ['elsewhere'] });
    const second = await fixture.callbackBecomes('second', 'Default', 'False', 'NotAllowed');
    const params = { endpointId: second.status?.endpointId ?? '' };
    const { body } = await fixture.api.expectSuccess('getCallback', { params });
    expect(body.isOrganizationDefault).toBe(false);
    expect(await shown('second')).toBe(false);
    await operator.stop();
  });
});

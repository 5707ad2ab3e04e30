// Handing on the default endpoint: the former Callback shows it at once, and a namespace that loses the right loses it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiAnswer, type CallOptions, RestClient } from '../../src/client/rest-client.ts';
import type { OperationId, OperationRequest } from '../../src/contract/operations/operations.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { nextSecond, type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

/** Runs `before` between the read of an endpoint and the call that clears the default. */
class ClearingLate extends RestClient {
  readonly #before: () => Promise<unknown>;

  constructor(options: ConstructorParameters<typeof RestClient>[0], before: () => Promise<unknown>) {
    super(options);
    this.#before = before;
  }

  override async call<Id extends OperationId>(
    operation: Id,
    request: OperationRequest<Id>,
    options?: CallOptions,
  ): Promise<ApiAnswer<Id>> {
    if (operation === 'setDefaultCallback') await this.#before();
    return await super.call(operation, request, options);
  }
}

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

describe.skipIf(!hasCluster)('the default endpoint of an owner', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    await fixture.api.expectSuccess('createProject', { body: { name: fixture.namespace } });
  });
  afterAll(() => fixture.close());

  it('a default that an owner sets while a Callback gives its own up stays', async () => {
    const created = await fixture.api.expectSuccess('createCallback', {
      body: { alias: 'of-the-owner', kind: 'webhook', url: 'http://127.0.0.1:9/owner' },
    });
    const owners = { endpointId: created.body.endpoint.id };
    const isDefault = async () =>
      (await fixture.api.expectSuccess('getCallback', { params: owners })).body.isOrganizationDefault;
    for (const way of ['edit', 'deletion']) {
      let beforeClear = async (): Promise<unknown> => undefined;
      const operator = await fixture.startOperator({
        defaultCallbackNamespaces: [fixture.namespace],
        makeClient: (options) => new ClearingLate(options, () => beforeClear()),
      });
      const name = { namespace: fixture.namespace, name: `given-up-on-${way}` };
      await fixture.createCallback(name.name, { organizationDefault: true });
      await fixture.callbackBecomes(name.name, 'Default', 'True');
      beforeClear = () => fixture.api.expectSuccess('setDefaultCallback', { body: owners });
      if (way === 'deletion') await fixture.kube.client.delete(CALLBACKS, name);
      else {
        const spec = { organizationDefault: false };
        await fixture.kube.client.mergePatch(CALLBACKS, name, { spec });
      }
      const isDone = async () => {
        const object = await fixture.kube.client.find(CALLBACKS, name);
        return object === undefined || object.status?.isOrganizationDefault === false;
      };
      await waitFor(isDone, { what: 'the Callback has given it up' });
      expect(await isDefault()).toBe(true);
      await fixture.api.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
      await operator.stop();
    }
  });
});

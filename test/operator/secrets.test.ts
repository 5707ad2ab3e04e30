// Secrets in the hands of users: renamed, made immutable, refused by the cluster.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KubeError } from '../../src/kube/kube-error.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('a Secret of the operator', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
  });
  afterAll(() => fixture.close());
  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const has = (name: string) => waitFor(() => fixture.secret(name), { what: `the Secret ${name}` });
  const isGone = (name: string) =>
    waitFor(async () => (await fixture.secret(name)) === undefined, { what: `the Secret ${name} is gone` });

  it('a Secret keeps its content under a new name, and the old one is removed', async () => {
    await fixture.createMonitor('named', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/named' } });
    await fixture.createCallback('named');
    await fixture.monitorBecomes('named', 'Ready', 'True');
    await fixture.callbackBecomes('named', 'Ready', 'True');
    const [beat, signing] = [await has('named-beat'), await has('named-signing')];
    await fixture.kube.client.mergePatch(MONITORS, ref('named'), { spec: { publishSecretName: 'beat-2' } });
    await fixture.kube.client.mergePatch(CALLBACKS, ref('named'), {
      spec: { signingSecretName: 'signing-2' },
    });
    expect([await has('beat-2'), await has('signing-2')]).toEqual([beat, signing]);
    await isGone('named-beat');
    await isGone('named-signing');
    expect((await fixture.callbackBecomes('named', 'Ready', 'True')).status?.secretVersion).toBe(1);
  });

  it('the signing secret leaves the Secret of a Monitor when its binding is no longer inline', async () => {
    await fixture.createMonitor('once', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/once' } });
    await fixture.monitorBecomes('once', 'Ready', 'True');
    expect(await has('once-beat')).toHaveProperty('signingSecret');
    await fixture.kube.client.mergePatch(MONITORS, ref('once'), {
      spec: { callback: { kind: 'disabled', url: null } },
    });
    await waitFor(async () => !(await has('once-beat')).signingSecret, {
      what: 'the signing secret is gone',
    });
    const { metadata } = await fixture.kube.client.get(SECRETS, ref('once-beat'));
    expect(metadata.annotations ?? {}).toEqual({});
  });

  it('an immutable Secret is replaced when the address changes', async () => {
    await fixture.createMonitor('fixed', disabled);
    const { status } = await fixture.monitorBecomes('fixed', 'Ready', 'True');
    await fixture.kube.client.mergePatch(SECRETS, ref('fixed-beat'), { immutable: true });
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag } = await fixture.api.expectSuccess('getMonitor', { params });
    const rotated = await fixture.api.expectSuccess('rotatePublishUrl', { params, ifMatch: etag, body: {} });
    await waitFor(async () => (await fixture.secret('fixed-beat'))?.url === rotated.body.publishUrl, {
      what: 'the new address',
    });
    expect((await fixture.kube.client.get(SECRETS, ref('fixed-beat'))).immutable).toBe(true);
  });

  it('a Secret of a former object of the same name gets the new object as its owner', async () => {
    // As a backup restores it, with the UID of the saved object: the garbage collector would delete it.
    const saved = (kind: string) => [
      {
        ...{ apiVersion: 'beatkeeper.dev/v1alpha1', kind, name: 'saved', controller: true },
        uid: '00000000-0000-4000-8000-000000000000',
      },
    ];
    await fixture.createMonitor('saved', disabled);
    await fixture.createCallback('saved', { rotation: { every: '1h' } });
    await fixture.monitorBecomes('saved', 'Ready', 'True');
    await fixture.callbackBecomes('saved', 'Ready', 'True');
    const before = [await has('saved-beat'), await has('saved-signing')];
    for (const [name, kind] of [
      ['saved-beat', 'Monitor'],
      ['saved-signing', 'Callback'],
    ] as const) {
      await fixture.kube.client.mergePatch(SECRETS, ref(name), {
        metadata: { ownerReferences: saved(kind) },
      });
    }
    // A change causes a pass over each object.
    await fixture.kube.client.mergePatch(MONITORS, ref('saved'), { spec: { graceSeconds: 99 } });
    for (const name of ['saved-beat', 'saved-signing']) {
      const owner = name === 'saved-beat' ? await fixture.monitor('saved') : await fixture.callback('saved');
      await waitFor(
        async () => {
          const { metadata } = await fixture.kube.client.get(SECRETS, ref(name));
          return metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid);
        },
        { what: `${name} names its owner` },
      );
    }
    expect([await has('saved-beat'), await has('saved-signing')]).toEqual(before);
  });

  it('a Monitor shows that the cluster refuses its Secret, and is ready when the cluster accepts one', async () => {
    const name = `long-${'a'.repeat(245)}`;
    await fixture.createMonitor(name, disabled);
    const refused = await fixture.monitorBecomes(name, 'Ready', 'False', 'Refused');
    expect(refused.status?.conditions?.find(({ type }) => type === 'Synced')).toMatchObject({
      status: 'False',
      message: expect.stringContaining('must be no more than 253'),
    });
    expect((await fixture.eventAppears(name, 'Refused')).type).toBe('Warning');
    await fixture.kube.client.mergePatch(MONITORS, ref(name), { spec: { publishSecretName: 'short' } });
    await fixture.monitorBecomes(name, 'Ready', 'True');
    expect(await has('short')).toHaveProperty('url');
  });

  it('Monitors show that the operator has no right to Secrets, and are ready when the right is back', async () => {
    let isAllowed = true;
    class Restricted extends KubeTransport {
      override async request(request: KubeRequest): Promise<unknown> {
        if (isAllowed || !request.path.includes('/secrets')) return await super.request(request);
        const message = `secrets is forbidden: cannot ${request.method}`;
        throw new KubeError(message, { status: 403, reason: 'Forbidden' });
      }
    }
    await operator.stop();
    operator = await fixture.startOperator({ makeTransport: (options) => new Restricted(options) });
    await fixture.createMonitor('known', disabled);
    await fixture.monitorBecomes('known', 'Ready', 'True');
    const before = await has('known-beat');
    isAllowed = false;
    await fixture.createMonitor('new', disabled);
    const refused = await fixture.monitorBecomes('new', 'Ready', 'False', 'Refused');
    expect(refused.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toBe(
      'Kubernetes refused a call of the operator: secrets is forbidden: cannot GET',
    );
    await fixture.monitorBecomes('known', 'Synced', 'False', 'Refused');
    isAllowed = true;
    await fixture.monitorBecomes('new', 'Ready', 'True');
    await fixture.monitorBecomes('known', 'Ready', 'True');
    expect(await has('known-beat')).toEqual(before);
  });
});

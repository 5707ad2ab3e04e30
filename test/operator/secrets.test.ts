// Secrets in the hands of users: renamed, made immutable, refused by the cluster.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KubeError } from '../../src/kube/kube-error.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorRoom, openRoom, type TestOperator } from './operator-room.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('a Secret of the operator', () => {
  let room: OperatorRoom;
  let operator: TestOperator;
  beforeAll(async () => {
    room = await openRoom();
    operator = await room.startOperator();
  });
  afterAll(() => room.close());
  const ref = (name: string) => ({ namespace: room.namespace, name });
  const has = (name: string) => waitFor(() => room.secret(name), { what: `the Secret ${name}` });
  const isGone = (name: string) =>
    waitFor(async () => (await room.secret(name)) === undefined, { what: `the Secret ${name} is gone` });

  it('keeps what it holds when it is given another name', async () => {
    await room.createMonitor('named', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/named' } });
    await room.createCallback('named');
    await room.monitorBecomes('named', 'Ready', 'True');
    await room.callbackBecomes('named', 'Ready', 'True');
    const [beat, signing] = [await has('named-beat'), await has('named-signing')];
    await room.kube.client.mergePatch(MONITORS, ref('named'), { spec: { publishSecretName: 'beat-2' } });
    await room.kube.client.mergePatch(CALLBACKS, ref('named'), { spec: { signingSecretName: 'signing-2' } });
    expect([await has('beat-2'), await has('signing-2')]).toEqual([beat, signing]);
    await isGone('named-beat');
    await isGone('named-signing');
    expect((await room.callbackBecomes('named', 'Ready', 'True')).status?.secretVersion).toBe(1);
  });

  it('holds no signing secret, and no trace of one, when the binding is inline no more', async () => {
    await room.createMonitor('once', { callback: { kind: 'inline', url: 'http://127.0.0.1:9/once' } });
    await room.monitorBecomes('once', 'Ready', 'True');
    expect(await has('once-beat')).toHaveProperty('signingSecret');
    await room.kube.client.mergePatch(MONITORS, ref('once'), {
      spec: { callback: { kind: 'disabled', url: null } },
    });
    await waitFor(async () => !(await has('once-beat')).signingSecret, {
      what: 'the signing secret is gone',
    });
    const { metadata } = await room.kube.client.get(SECRETS, ref('once-beat'));
    expect(metadata.annotations ?? {}).toEqual({});
  });

  it('is made again where it is immutable and its address has changed', async () => {
    await room.createMonitor('fixed', disabled);
    const { status } = await room.monitorBecomes('fixed', 'Ready', 'True');
    await room.kube.client.mergePatch(SECRETS, ref('fixed-beat'), { immutable: true });
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag } = await room.api.expectSuccess('getMonitor', { params });
    const rotated = await room.api.expectSuccess('rotatePublishUrl', { params, ifMatch: etag, body: {} });
    await waitFor(async () => (await room.secret('fixed-beat'))?.url === rotated.body.publishUrl, {
      what: 'the new address',
    });
    expect((await room.kube.client.get(SECRETS, ref('fixed-beat'))).immutable).toBe(true);
  });

  it('names the object that it belongs to, also where it comes from one of that name before', async () => {
    // As a restore brings it back, with the UID of the object that was saved: the garbage collector would take it.
    const saved = (kind: string) => [
      {
        ...{ apiVersion: 'beatkeeper.dev/v1alpha1', kind, name: 'saved', controller: true },
        uid: '00000000-0000-4000-8000-000000000000',
      },
    ];
    await room.createMonitor('saved', disabled);
    await room.createCallback('saved', { rotation: { every: '1h' } });
    await room.monitorBecomes('saved', 'Ready', 'True');
    await room.callbackBecomes('saved', 'Ready', 'True');
    const before = [await has('saved-beat'), await has('saved-signing')];
    for (const [name, kind] of [
      ['saved-beat', 'Monitor'],
      ['saved-signing', 'Callback'],
    ] as const) {
      await room.kube.client.mergePatch(SECRETS, ref(name), {
        metadata: { ownerReferences: saved(kind) },
      });
    }
    // A pass over each.
    await room.kube.client.mergePatch(MONITORS, ref('saved'), { spec: { graceSeconds: 99 } });
    for (const name of ['saved-beat', 'saved-signing']) {
      const owner = name === 'saved-beat' ? await room.monitor('saved') : await room.callback('saved');
      await waitFor(
        async () => {
          const { metadata } = await room.kube.client.get(SECRETS, ref(name));
          return metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid);
        },
        { what: `${name} names its owner` },
      );
    }
    expect([await has('saved-beat'), await has('saved-signing')]).toEqual(before);
  });

  it('that the cluster does not take is told of, and made when it does', async () => {
    const name = `long-${'a'.repeat(245)}`;
    await room.createMonitor(name, disabled);
    const refused = await room.monitorBecomes(name, 'Ready', 'False', 'Refused');
    expect(refused.status?.conditions?.find(({ type }) => type === 'Synced')).toMatchObject({
      status: 'False',
      message: expect.stringContaining('must be no more than 253'),
    });
    expect((await room.told(name, 'Refused')).type).toBe('Warning');
    await room.kube.client.mergePatch(MONITORS, ref(name), { spec: { publishSecretName: 'short' } });
    await room.monitorBecomes(name, 'Ready', 'True');
    expect(await has('short')).toHaveProperty('url');
  });

  it('is out of reach while the operator has no right to it: that is said, and over when the right is back', async () => {
    let isAllowed = true;
    class Restricted extends KubeTransport {
      override async request(request: KubeRequest): Promise<unknown> {
        if (isAllowed || !request.path.includes('/secrets')) return await super.request(request);
        const message = `secrets is forbidden: cannot ${request.method}`;
        throw new KubeError(message, { status: 403, reason: 'Forbidden' });
      }
    }
    await operator.stop();
    operator = await room.startOperator({ makeTransport: (options) => new Restricted(options) });
    await room.createMonitor('known', disabled);
    await room.monitorBecomes('known', 'Ready', 'True');
    const before = await has('known-beat');
    isAllowed = false;
    await room.createMonitor('new', disabled);
    const refused = await room.monitorBecomes('new', 'Ready', 'False', 'Refused');
    expect(refused.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toBe(
      'Kubernetes refused a call of the operator: secrets is forbidden: cannot GET',
    );
    await room.monitorBecomes('known', 'Synced', 'False', 'Refused');
    isAllowed = true;
    await room.monitorBecomes('new', 'Ready', 'True');
    await room.monitorBecomes('known', 'Ready', 'True');
    expect(await has('known-beat')).toEqual(before);
  });
});

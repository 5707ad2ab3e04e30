// The two tokens of a running operator are rotated, and the old ones are refused: that of its service account at the API
// server, and that of its session at the API. Nobody restarts it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findCondition } from '../../src/kube/conditions.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { serviceAccounts } from '../kube/service-accounts.ts';
import { createApiClient } from '../support/api-client.ts';
import { waitFor } from '../support/wait-for.ts';
import { ClusterGate } from './cluster-gate.ts';
import { collectLines } from './log-lines.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const BINDINGS: KubeResource<KubeObject & { subjects: object[]; roleRef: object }> = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  plural: 'rolebindings',
  namespaced: true,
};
const PODS: KubeResource<KubeObject & { spec: object }> = {
  apiVersion: 'v1',
  kind: 'Pod',
  plural: 'pods',
  namespaced: true,
};

describe.skipIf(!hasCluster)('an operator whose tokens are rotated', () => {
  let fixture: OperatorFixture;
  let folder: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    folder = await mkdtemp(join(tmpdir(), 'rotated-'));
  });
  afterAll(async () => {
    await fixture.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** A token of the account that ends with a pod, as the kubelet mounts them. */
  async function tokenOfPod(name: string): Promise<{ token: string; end: () => Promise<unknown> }> {
    const { namespace, kube } = fixture;
    const containers = [{ name: 'operator', image: 'none' }];
    const spec = { serviceAccountName: 'operator', automountServiceAccountToken: false, containers };
    const pod = await kube.client.create(PODS, { metadata: { namespace, name }, spec });
    const bound = { apiVersion: 'v1', kind: 'Pod', name, uid: pod.metadata.uid };
    const answer = await kube.transport.request({
      method: 'POST',
      path: `/api/v1/namespaces/${namespace}/serviceaccounts/operator/token`,
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 3_600, boundObjectRef: bound },
      },
    });
    const { token } = (answer as { status: { token: string } }).status;
    return { token, end: () => kube.client.delete(PODS, pod.metadata) };
  }

  it('it goes on at the API server with the new token of its service account, and says what was refused', async () => {
    const { namespace, kube } = fixture;
    for (const name of ['operator', 'default'])
      await kube.client.create(serviceAccounts, { metadata: { namespace, name } });
    await kube.client.create(BINDINGS, {
      metadata: { namespace, name: 'operator' },
      subjects: [{ kind: 'ServiceAccount', namespace, name: 'operator' }],
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    });
    const gate = await ClusterGate.start();
    const said = collectLines();
    const tokenFile = join(folder, 'token');
    const old = await tokenOfPod('old');
    await writeFile(tokenFile, old.token);
    const loadConfig = () => gate.config({ authProvider: { name: 'tokenFile', config: { tokenFile } } });
    const operator = await fixture.startOperator({
      makeTransport: (options) => new KubeTransport({ ...options, loadConfig }),
      log: said.log,
      watchTuning: { backoff: { baseMs: 100, maxMs: 500 } },
    });
    await fixture.createMonitor('before', disabled);
    await fixture.monitorBecomes('before', 'Ready', 'True');

    // Refused before the file has another one: nothing works, and the operator stays.
    await old.end();
    const isRefused = async () => {
      const list = () =>
        gateTransport.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}/secrets` });
      return await list().then(
        () => false,
        ({ status }: { status?: number }) => status === 401,
      );
    };
    const gateTransport = new KubeTransport({
      loadConfig: () => gate.config({ token: old.token }),
      userAgent: 'test/1',
    });
    await waitFor(isRefused, { what: 'the API server refuses the old token' });
    await gateTransport.close();
    gate.tearWatches();
    await fixture.createMonitor('during', { graceSeconds: 444, ...disabled });
    const ref = { namespace, name: 'before' };
    await kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 333 } });
    await waitFor(() => operator.runtime.watchFailure, { what: 'the operator says that it cannot watch' });
    expect(operator.runtime.watchFailure).toMatch(/: Unauthorized$/);

    const next = await tokenOfPod('next');
    await writeFile(tokenFile, next.token);
    await fixture.monitorBecomes('during', 'Ready', 'True');
    const { status } = await fixture.monitorBecomes('before', 'Synced', 'True');
    const params = { monitorId: status?.monitorId ?? '' };
    expect((await fixture.api.expectSuccess('getMonitor', { params })).body.graceSeconds).toBe(333);
    expect(operator.runtime.watchFailure).toBeUndefined();
    expect([operator.calls.get('createMonitor'), operator.calls.get('updateMonitor')]).toEqual([2, 1]);
    expect(gate.stored('POST', '/secrets')).toHaveLength(2);

    // The next one changes the file in time, as the kubelet does: then a call is refused and sent again, and none is lost.
    const last = await tokenOfPod('last');
    await writeFile(tokenFile, last.token);
    await next.end();
    await fixture.createMonitor('after', disabled);
    await fixture.monitorBecomes('after', 'Ready', 'True');
    expect(operator.calls.get('createMonitor')).toBe(3);
    expect(said.errors()).toEqual([]);
    const text = JSON.stringify(said.lines);
    for (const { token } of [old, next, last]) expect(text).not.toContain(token.split('.')[2]);
    await operator.stop();
    await gate.close();
  });

  it('it goes on at the API with the new token of its session, and its readiness and its objects say while none is taken', async () => {
    const { issuer, url } = fixture.apiFixture;
    const claims = { role: 'operator', org: 'acme', name: 'operator of acme' };
    const sign = (lifeSeconds: number) => issuer.sign({ subject: 'operator@acme', claims, lifeSeconds });
    const old = await sign(15);
    await writeFile(fixture.tokenFile, old);
    const said = collectLines();
    const operator = await fixture.startOperator({ log: said.log });
    const fault = () => operator.runtime.signIn.findFault(fixture.tokenFile);
    await fixture.createMonitor('signed', disabled);
    await fixture.monitorBecomes('signed', 'Ready', 'True');
    await waitFor(async () => (await fault()) === undefined, { what: 'the session is taken' });

    const client = createApiClient({ url, token: old });
    await waitFor(async () => (await client.call('listProjects', {})).status === 401, {
      what: 'the API refuses the old token',
    });
    await fixture.createMonitor('unsigned', { graceSeconds: 444, ...disabled });
    const ref = { namespace: fixture.namespace, name: 'signed' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 333 } });
    const isTold = async () =>
      findCondition((await fixture.monitor('unsigned')).status?.conditions, 'Synced')?.reason ===
      'Unauthorized';
    await waitFor(isTold, { what: 'the status says Unauthorized' });
    await waitFor(async () => (await fault())?.startsWith("The API refuses the operator's token."), {
      what: 'the readiness says that the token is refused',
    });
    // What worked goes on: its jobs beat, and its Secret is there.
    const ready = findCondition((await fixture.monitor('signed')).status?.conditions, 'Ready');
    expect(ready?.status).toBe('True');
    expect((await fixture.beat('signed-beat')).status).toBe(200);

    await writeFile(fixture.tokenFile, await sign(3600));
    await fixture.monitorBecomes('unsigned', 'Ready', 'True');
    const { status } = await fixture.monitorBecomes('signed', 'Synced', 'True');
    const params = { monitorId: status?.monitorId ?? '' };
    expect((await fixture.api.expectSuccess('getMonitor', { params })).body.graceSeconds).toBe(333);
    await waitFor(async () => (await fault()) === undefined, { what: 'the session is taken again' });
    const { rows } = await fixture.apiFixture.pool.query("select from monitors where name = 'unsigned'");
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(said.lines)).not.toContain(old.split('.')[2]);
    await operator.stop();
  });
});

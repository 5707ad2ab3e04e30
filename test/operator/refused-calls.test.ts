// Calls that the API, or a proxy before it, answers with an error: the operator takes nothing for done that is not.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const disabled = { callback: { kind: 'disabled' } };
const page = { status: 404, headers: { 'content-type': 'text/html' }, body: '<h1>default backend</h1>' };

describe.skipIf(!hasCluster)('an operator whose calls are refused', () => {
  let fixture: OperatorFixture;
  let proxy: RefusingProxy;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    proxy = await RefusingProxy.start(fixture.apiFixture.url);
    operator = await fixture.startOperator({ apiUrl: proxy.url });
  });
  afterEach(() => {
    proxy.answer = () => undefined;
  });
  afterAll(async () => {
    await operator.stop();
    await fixture.close();
    await proxy.close();
  });
  const record = async (name: string) => {
    const monitorId = (await fixture.monitor(name)).status?.monitorId ?? '';
    return await fixture.api.expectSuccess('getMonitor', { params: { monitorId } });
  };

  it('a change made through the API is undone after the API has refused to do so for a while', async () => {
    await fixture.createMonitor('drifting', { graceSeconds: 120, ...disabled });
    await fixture.monitorBecomes('drifting', 'Ready', 'True');
    proxy.answer = ({ method }) => (method === 'PATCH' ? { status: 503 } : undefined);
    const { etag, body } = await record('drifting');
    await fixture.api.expectSuccess('updateMonitor', {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
      body: { patch: { graceSeconds: 999 } },
    });
    await fixture.kube.client.get(MONITORS, { namespace: fixture.namespace, name: 'drifting' });
    await waitFor(
      async () =>
        (await fixture.monitor('drifting')).status?.conditions?.some(
          ({ type, reason }) => type === 'Synced' && reason === 'ApiUnavailable',
        ),
      { what: 'the status says that the API is unavailable' },
    );
    proxy.answer = () => undefined;
    await waitFor(async () => (await record('drifting')).body.graceSeconds === 120, {
      what: 'the field is restored',
    });
    await fixture.monitorBecomes('drifting', 'Synced', 'True');
  });

  it('a Monitor whose window the API refused is ready when the window is over, because clocks may differ', async () => {
    const problem = {
      code: 'service.validation_failed',
      detail: 'maintenance.endsAt: Must be in the future.',
    };
    proxy.answer = ({ path }) =>
      path.includes('/lifecycle') ? { status: 400, body: JSON.stringify(problem) } : undefined;
    const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
    await fixture.createMonitor('ahead', { ...disabled, maintenance: { startsAt: at(-60), endsAt: at(4) } });
    await fixture.monitorBecomes('ahead', 'Ready', 'True');
    expect((await record('ahead')).body.status.health).toBe('waiting');
  });

  it('a Callback that waits for an alias gets it when the alias is free', async () => {
    await fixture.createCallback('first', { alias: 'pager' });
    await fixture.callbackBecomes('first', 'Ready', 'True');
    await fixture.createCallback('second', { alias: 'pager' });
    await fixture.callbackBecomes('second', 'Ready', 'False', 'AliasConflict');
    await fixture.kube.client.delete(CALLBACKS, { namespace: fixture.namespace, name: 'first' });
    await fixture.callbackBecomes('second', 'Ready', 'True');
  });

  it('a 404 page of a load balancer does not count as an answer of the API', async () => {
    await fixture.createMonitor('kept', disabled);
    await fixture.monitorBecomes('kept', 'Ready', 'True');
    const { body } = await record('kept');
    proxy.answer = ({ path }) => (path.startsWith('/v1/status-feed') ? undefined : page);
    const before = proxy.answered;
    await fixture.kube.client.delete(MONITORS, { namespace: fixture.namespace, name: 'kept' });
    await waitFor(() => proxy.answered > before, { what: 'a call of the operator' });
    proxy.answer = () => undefined;
    await waitFor(
      async () =>
        (await fixture.kube.client.find(MONITORS, { namespace: fixture.namespace, name: 'kept' })) ===
        undefined,
      { what: 'the object is gone' },
    );
    const { body: after } = await fixture.api.expectSuccess('getMonitor', {
      params: { monitorId: body.monitorId },
    });
    expect(after.lifecycle).toBe('archived');
  });
});

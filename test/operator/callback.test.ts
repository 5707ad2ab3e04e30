// A Callback from YAML to the API and back, on a real API server and a real api.
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  nextSecond,
  type OperatorFixture,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const url = 'http://127.0.0.1:9/alerts';

describe.skipIf(!hasCluster)('a Callback', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  const lines: string[] = [];
  const note = (fields: object, words: string) => lines.push(`${words} ${inspect(fields, { depth: 10 })}`);
  const log = { debug: note, info: note, warn: note, error: note };
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator({ defaultCallbackNamespaces: [fixture.namespace], log });
  });
  afterAll(() => fixture.close());

  const patch = (name: string, body: object) =>
    fixture.kube.client.mergePatch(CALLBACKS, { namespace: fixture.namespace, name }, body);
  const endpoint = async (name: string) => {
    const endpointId = (await fixture.callback(name)).status?.endpointId ?? '';
    return await fixture.api.expectSuccess('getCallback', { params: { endpointId } });
  };
  const ref = (name: string) => ({ namespace: fixture.namespace, name });

  it('a Callback creates its endpoint and a Secret with the signing secret', async () => {
    await fixture.createCallback('oncall.team');
    const object = await fixture.callbackBecomes('oncall.team', 'Ready', 'True');
    expect(object.status).toMatchObject({
      endpointId: `cb_${object.metadata.uid?.replaceAll('-', '')}`,
      alias: 'oncall-team',
      kind: 'webhook',
      lifecycle: 'active',
      generation: 1,
      secretVersion: 1,
      signingSecretRef: { name: 'oncall.team-signing' },
    });
    const secret = await fixture.secret('oncall.team-signing');
    expect(secret).toEqual({ secret: expect.stringMatching(/^sigcb_v1_[A-Za-z0-9_-]{43}$/), version: '1' });
    expect((await endpoint('oncall.team')).body).toMatchObject({ alias: 'oncall-team', url });
    await fixture.eventAppears('oncall.team', 'Created');
    const { stdout } = await fixture.kubectl(['get', 'cb', 'oncall.team']);
    expect(stdout).toMatch(/KIND +LIFECYCLE +DEFAULT +LAST DELIVERY +READY +AGE/);
    expect(stdout).toMatch(/webhook +active +false .*True/);
  });

  it('each new value of the annotation rotates a Callback once, and its Secret has the old secret and the new one', async () => {
    await fixture.createCallback('turning', {}, { annotations: { 'beatkeeper.dev/rotate': 'first' } });
    await fixture.callbackBecomes('turning', 'Ready', 'True');
    const before = await fixture.secret('turning-signing');
    expect(before?.version).toBe('1');
    expect((await fixture.callback('turning')).status?.lastRotation).toEqual({ value: 'first' });
    await patch('turning', { metadata: { annotations: { 'beatkeeper.dev/rotate': 'second' } } });
    await waitFor(async () => (await fixture.secret('turning-signing'))?.version === '2', {
      what: 'version 2',
    });
    const after = await fixture.secret('turning-signing');
    expect(after?.previousSecret).toBe(before?.secret);
    expect(after?.secret).not.toBe(before?.secret);
    await waitFor(async () => (await fixture.callback('turning')).status?.lastRotation?.value === 'second', {
      what: 'the status names the rotation',
    });
    await fixture.eventAppears('turning', 'SecretRotated');
    expect((await endpoint('turning')).body.secret?.version).toBe(2);
  });

  it('the previous signing secret leaves the Secret when its overlap ends', async () => {
    await fixture.createCallback('short', { rotation: { overlapSeconds: 1 } });
    await fixture.callbackBecomes('short', 'Ready', 'True');
    await patch('short', { metadata: { annotations: { 'beatkeeper.dev/rotate': 'now' } } });
    await waitFor(async () => (await fixture.secret('short-signing'))?.version === '2', {
      what: 'version 2',
    });
    const isOver = async () => (await fixture.secret('short-signing'))?.previousSecret === undefined;
    await waitFor(isOver, { what: 'the overlap is over' });
    expect((await fixture.secret('short-signing'))?.version).toBe('2');
  });

  it('a signing secret that was deleted, edited or rotated through the API is replaced', async () => {
    await fixture.createCallback('lossy');
    await fixture.callbackBecomes('lossy', 'Ready', 'True');
    const version = (wanted: string) =>
      waitFor(async () => (await fixture.secret('lossy-signing'))?.version === wanted, {
        what: `version ${wanted}`,
      });
    await fixture.kube.client.delete(SECRETS, ref('lossy-signing'));
    await version('2');
    await fixture.eventAppears('lossy', 'SecretRestored');
    await waitFor(async () => (await fixture.callback('lossy')).status?.secretVersion === 2, {
      what: 'the status knows',
    });
    const wrong = Buffer.from('wrong').toString('base64');
    await fixture.kube.client.mergePatch(SECRETS, ref('lossy-signing'), { data: { secret: wrong } });
    await version('3');
    expect((await fixture.secret('lossy-signing'))?.secret).toMatch(/^sigcb_v1_/);
    await waitFor(async () => (await fixture.callback('lossy')).status?.secretVersion === 3, {
      what: 'the status knows',
    });
    const { body, etag } = await endpoint('lossy');
    await fixture.api.expectSuccess('rotateSigningSecret', {
      params: { endpointId: body.id },
      ifMatch: etag,
      body: {},
    });
    await version('5');
    await fixture.eventAppears('lossy', 'SecretRotated');
  });

  it('an endpoint that was changed through the API is restored, and a removed one is created again under the next id', async () => {
    await fixture.createCallback('drifty', { alias: 'mine' });
    const { status } = await fixture.callbackBecomes('drifty', 'Ready', 'True');
    const first = await endpoint('drifty');
    const params = { endpointId: first.body.id };
    const body = { alias: 'other', url: 'http://127.0.0.1:9/elsewhere' };
    await fixture.api.expectSuccess('updateCallback', { params, ifMatch: first.etag, body });
    await waitFor(async () => (await endpoint('drifty')).body.alias === 'mine', {
      what: 'the alias is back',
    });
    expect((await endpoint('drifty')).body.url).toBe(url);
    await fixture.eventAppears('drifty', 'Drifted');
    const { etag } = await endpoint('drifty');
    await fixture.api.expectSuccess('deleteCallback', { params, ifMatch: etag });
    const id = `${status?.endpointId}-2`;
    await waitFor(async () => (await fixture.callback('drifty')).status?.endpointId === id, {
      what: 'the next id',
    });
    expect((await endpoint('drifty')).body.alias).toBe('mine');
    expect((await fixture.secret('drifty-signing'))?.version).toBe('1');
  });

  it('a Callback follows the address in a Secret and never shows it', async () => {
    await fixture.createCallback('hidden', { url: undefined, urlSecretRef: { name: 'address', key: 'url' } });
    await fixture.callbackBecomes('hidden', 'Ready', 'False', 'SecretNotFound');
    const data = (text: string) => ({ url: Buffer.from(text).toString('base64') });
    await fixture.kube.client.create(SECRETS, {
      metadata: ref('address'),
      data: data('https://10.9.8.7/token-abc\n'),
    });
    await patch('hidden', { metadata: { annotations: { poke: '1' } } });
    const refused = await fixture.callbackBecomes('hidden', 'Ready', 'False', 'Refused');
    expect(JSON.stringify(refused)).not.toMatch(/10\.9\.8\.7|token-abc/);
    await fixture.kube.client.mergePatch(SECRETS, ref('address'), {
      data: data('http://127.0.0.1:9/token-def\n'),
    });
    const object = await fixture.callbackBecomes('hidden', 'Ready', 'True');
    expect((await endpoint('hidden')).body.url).toBe('http://127.0.0.1:9/token-def');
    expect(JSON.stringify([object, await fixture.events('hidden')])).not.toMatch(/10\.9\.8\.7|token-/);
  });

  it('a Callback whose alias is taken is not ready, with the reason AliasConflict', async () => {
    await fixture.createCallback('holder', { alias: 'wanted' });
    await fixture.callbackBecomes('holder', 'Ready', 'True');
    await fixture.createCallback('late', { alias: 'wanted' });
    const object = await fixture.callbackBecomes('late', 'Ready', 'False', 'AliasConflict');
    expect(object.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toContain(
      'service.conflict',
    );
    await patch('late', { spec: { alias: 'another' } });
    await fixture.callbackBecomes('late', 'Ready', 'True');
  });

  it('a Callback takes over the endpoint with its alias when an annotation names that endpoint', async () => {
    await fixture.createCallback('former', { alias: 'kept', deletionPolicy: 'Orphan' });
    const { endpointId } = (await fixture.callbackBecomes('former', 'Ready', 'True')).status ?? {};
    expect((await fixture.kubectl(['delete', 'cb', 'former', '--timeout=200s'])).code).toBe(0);
    await fixture.createCallback('kept');
    await fixture.callbackBecomes('kept', 'Ready', 'False', 'AliasConflict');
    await patch('kept', { metadata: { annotations: { 'beatkeeper.dev/endpoint-id': endpointId } } });
    const { status } = await fixture.callbackBecomes('kept', 'Ready', 'True');
    expect(status?.endpointId).toBe(endpointId);
    await fixture.eventAppears('kept', 'Adopted');
  });

  it('a Callback that takes over another endpoint gives it a new secret and its own alias', async () => {
    await fixture.createCallback('left', { deletionPolicy: 'Orphan' });
    const { status } = await fixture.callbackBecomes('left', 'Ready', 'True');
    const endpointId = status?.endpointId ?? '';
    await fixture.createCallback('taking', { alias: 'taking' });
    const former = (await fixture.callbackBecomes('taking', 'Ready', 'True')).status?.endpointId ?? '';
    const { secret } = (await fixture.secret('taking-signing')) ?? {};
    expect((await fixture.kubectl(['delete', 'cb', 'left', '--timeout=200s'])).code).toBe(0);
    await fixture.kube.client.mergePatch(CALLBACKS, ref('taking'), {
      metadata: { annotations: { 'beatkeeper.dev/endpoint-id': endpointId } },
    });
    const object = await waitFor(
      async () => {
        const found = await fixture.callback('taking');
        const isReady = found.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True');
        return isReady && found.status?.endpointId === endpointId ? found : undefined;
      },
      { what: 'the Callback has the endpoint' },
    );
    // The secret that the endpoint had is lost: it gets a new one, of the next version.
    expect(await fixture.secret('taking-signing')).toMatchObject({ version: '2' });
    expect((await fixture.secret('taking-signing'))?.secret).not.toBe(secret);
    expect(await fixture.secret('taking-signing')).not.toHaveProperty('previousSecret');
    expect(object.status).toMatchObject({ alias: 'taking', secretVersion: 2 });
    const params = { endpointId: former };
    expect((await fixture.api.call('getCallback', { params })).status).toBe(404);
  });

  it('a Monitor is ready only while the Callback that it names exists and is enabled', async () => {
    await fixture.createMonitor('waiting', { callback: { kind: 'named', callbackRef: { name: 'pager' } } });
    await fixture.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    await fixture.createCallback('pager', { alias: 'the-pager' });
    const object = await fixture.monitorBecomes('waiting', 'Ready', 'True');
    expect(object.status?.display?.callback).toBe('the-pager');
    await patch('pager', { spec: { lifecycle: 'disabled' } });
    await fixture.callbackBecomes('pager', 'Ready', 'True', 'Disabled');
    await fixture.monitorBecomes('waiting', 'Ready', 'False', 'EndpointDisabled');
    await fixture.kube.client.delete(CALLBACKS, ref('pager'));
    await fixture.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    await waitFor(async () => (await fixture.secret('pager-signing')) === undefined, {
      what: 'its Secret is gone',
    });
  });

  it("the oldest Callback that asks for it is the organization's default, and the next one follows it", async () => {
    await fixture.createMonitor('default');
    await fixture.monitorBecomes('default', 'Ready', 'False', 'NoOrganizationDefault');
    await fixture.createCallback('oldest', { organizationDefault: true });
    await fixture.callbackBecomes('oldest', 'Default', 'True');
    await fixture.monitorBecomes('default', 'Ready', 'True');
    await nextSecond(await fixture.callback('oldest'));
    await fixture.createCallback('younger', { organizationDefault: true });
    const younger = await fixture.callbackBecomes('younger', 'Default', 'False', 'OlderExists');
    expect(younger.status?.conditions?.find(({ type }) => type === 'Default')?.message).toContain('oldest');
    await fixture.api.expectSuccess('setDefaultCallback', {
      body: { endpointId: younger.status?.endpointId },
    });
    await waitFor(async () => (await endpoint('oldest')).body.isOrganizationDefault, {
      what: 'it is restored',
    });
    await fixture.kube.client.delete(CALLBACKS, ref('oldest'));
    await fixture.callbackBecomes('younger', 'Default', 'True');
    await waitFor(async () => (await endpoint('younger')).body.isOrganizationDefault, {
      what: 'the next default',
    });
    await patch('younger', { spec: { organizationDefault: null } });
    await waitFor(async () => !(await endpoint('younger')).body.isOrganizationDefault, {
      what: 'no default',
    });
    await fixture.monitorBecomes('default', 'Ready', 'False', 'NoOrganizationDefault');
  });

  it('an endpoint that its receiver has disabled stays disabled until the spec changes', async () => {
    await fixture.createCallback('gone');
    await fixture.callbackBecomes('gone', 'Ready', 'True');
    const { id } = (await endpoint('gone')).body;
    await fixture.apiFixture.pool.query(
      `update callback_endpoints set lifecycle = 'disabled', disabled_at = now(), disabled_reason = 'receiver_gone',
       generation = generation + 1 where endpoint_id = $1`,
      [id],
    );
    await fixture.callbackBecomes('gone', 'Ready', 'False', 'DisabledByReceiver');
    const asked = operator.calls.get('updateCallback');
    await patch('gone', { spec: { url: 'http://127.0.0.1:9/new' } });
    await fixture.callbackBecomes('gone', 'Ready', 'True');
    expect(operator.calls.get('updateCallback')).toBe((asked ?? 0) + 1);
  });

  it('the signing secret of an inline binding is in the Secret of its Monitor', async () => {
    await fixture.createMonitor('inline', { callback: { kind: 'inline', url } });
    await fixture.monitorBecomes('inline', 'Ready', 'True');
    const first = await fixture.secret('inline-beat');
    expect(first?.signingSecret).toMatch(/^sigcb_v1_/);
    await fixture.kube.client.delete(SECRETS, ref('inline-beat'));
    await fixture.eventAppears('inline', 'SecretRestored');
    await waitFor(async () => (await fixture.secret('inline-beat'))?.signingSecret !== undefined, {
      what: 'a new secret',
    });
    const second = await fixture.secret('inline-beat');
    expect(second?.url).toBe(first?.url);
    expect(second?.signingSecret).not.toBe(first?.signingSecret);
    await fixture.monitorBecomes('inline', 'Synced', 'True');
    const { status } = await fixture.monitor('inline');
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag } = await fixture.api.expectSuccess('getMonitor', { params });
    const body = { binding: { kind: 'inline', url }, rotateSigningSecret: true };
    await fixture.api.expectSuccess('setMonitorBinding', { params, ifMatch: etag, body });
    const isNew = async () => (await fixture.secret('inline-beat'))?.signingSecret !== second?.signingSecret;
    await waitFor(isNew, { what: 'the new secret' });
    await fixture.kube.client.mergePatch(MONITORS, ref('inline'), {
      spec: { callback: { kind: 'disabled', url: null } },
    });
    await waitFor(async () => (await fixture.secret('inline-beat'))?.signingSecret === undefined, {
      what: 'the Secret without a signing secret',
    });
  });

  it('no log line, Event or status shows a secret', async () => {
    const names = ['oncall.team-signing', 'turning-signing', 'lossy-signing', 'inline-beat'];
    const secrets = await Promise.all(names.map((name) => fixture.secret(name)));
    const values = secrets.flatMap((data) => Object.values(data ?? {})).filter((value) => value.length > 10);
    expect(values.length).toBeGreaterThanOrEqual(4);
    const { stdout } = await fixture.kubectl(['get', 'monitors,callbacks,events', '-o', 'yaml']);
    expect(lines.length).toBeGreaterThan(0);
    for (const value of [...values, 'sigcb_v1_', 'token-abc']) {
      expect(lines.join()).not.toContain(value);
      expect(stdout).not.toContain(value);
    }
  });
});

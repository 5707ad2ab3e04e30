// A Callback from YAML to the API and back, on a real API server and a real api.
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { nextSecond, type OperatorRoom, openRoom, type TestOperator } from './operator-room.ts';

const url = 'http://127.0.0.1:9/alerts';

describe.skipIf(!hasCluster)('a Callback', () => {
  let room: OperatorRoom;
  let operator: TestOperator;
  const lines: string[] = [];
  const note = (fields: object, words: string) => lines.push(`${words} ${inspect(fields, { depth: 10 })}`);
  const log = { debug: note, info: note, warn: note, error: note };
  beforeAll(async () => {
    room = await openRoom();
    operator = await room.startOperator({ defaultCallbackNamespaces: [room.namespace], log });
  });
  afterAll(() => room.close());

  const patch = (name: string, body: object) =>
    room.kube.client.mergePatch(CALLBACKS, { namespace: room.namespace, name }, body);
  const endpoint = async (name: string) => {
    const endpointId = (await room.callback(name)).status?.endpointId ?? '';
    return await room.api.expectSuccess('getCallback', { params: { endpointId } });
  };
  const ref = (name: string) => ({ namespace: room.namespace, name });

  it('is made with its signing secret in a Secret', async () => {
    await room.createCallback('oncall.team');
    const object = await room.callbackBecomes('oncall.team', 'Ready', 'True');
    expect(object.status).toMatchObject({
      endpointId: `cb_${object.metadata.uid?.replaceAll('-', '')}`,
      alias: 'oncall-team',
      kind: 'webhook',
      lifecycle: 'active',
      generation: 1,
      secretVersion: 1,
      signingSecretRef: { name: 'oncall.team-signing' },
    });
    const secret = await room.secret('oncall.team-signing');
    expect(secret).toEqual({ secret: expect.stringMatching(/^sigcb_v1_[A-Za-z0-9_-]{43}$/), version: '1' });
    expect((await endpoint('oncall.team')).body).toMatchObject({ alias: 'oncall-team', url });
    await room.told('oncall.team', 'Created');
    const { stdout } = await room.kubectl(['get', 'cb', 'oncall.team']);
    expect(stdout).toMatch(/KIND +LIFECYCLE +DEFAULT +LAST DELIVERY +READY +AGE/);
    expect(stdout).toMatch(/webhook +active +false .*True/);
  });

  it('rotates once for each new value of the annotation, with the old secret beside the new one', async () => {
    await room.createCallback('turning', {}, { annotations: { 'beatkeeper.dev/rotate': 'first' } });
    await room.callbackBecomes('turning', 'Ready', 'True');
    const before = await room.secret('turning-signing');
    expect(before?.version).toBe('1');
    expect((await room.callback('turning')).status?.lastRotation).toEqual({ value: 'first' });
    await patch('turning', { metadata: { annotations: { 'beatkeeper.dev/rotate': 'second' } } });
    await waitFor(async () => (await room.secret('turning-signing'))?.version === '2', { what: 'version 2' });
    const after = await room.secret('turning-signing');
    expect(after?.previousSecret).toBe(before?.secret);
    expect(after?.secret).not.toBe(before?.secret);
    await waitFor(async () => (await room.callback('turning')).status?.lastRotation?.value === 'second', {
      what: 'noted',
    });
    await room.told('turning', 'SecretRotated');
    expect((await endpoint('turning')).body.secret?.version).toBe(2);
  });

  it('drops the previous secret when the overlap is over', async () => {
    await room.createCallback('short', { rotation: { overlapSeconds: 1 } });
    await room.callbackBecomes('short', 'Ready', 'True');
    await patch('short', { metadata: { annotations: { 'beatkeeper.dev/rotate': 'now' } } });
    await waitFor(async () => (await room.secret('short-signing'))?.version === '2', { what: 'version 2' });
    const isOver = async () => (await room.secret('short-signing'))?.previousSecret === undefined;
    await waitFor(isOver, { what: 'the overlap is over' });
    expect((await room.secret('short-signing'))?.version).toBe('2');
  });

  it('replaces a secret that was deleted, edited or rotated elsewhere', async () => {
    await room.createCallback('lossy');
    await room.callbackBecomes('lossy', 'Ready', 'True');
    const version = (wanted: string) =>
      waitFor(async () => (await room.secret('lossy-signing'))?.version === wanted, {
        what: `version ${wanted}`,
      });
    await room.kube.client.delete(SECRETS, ref('lossy-signing'));
    await version('2');
    await room.told('lossy', 'SecretRestored');
    await waitFor(async () => (await room.callback('lossy')).status?.secretVersion === 2, {
      what: 'the status knows',
    });
    const wrong = Buffer.from('wrong').toString('base64');
    await room.kube.client.mergePatch(SECRETS, ref('lossy-signing'), { data: { secret: wrong } });
    await version('3');
    expect((await room.secret('lossy-signing'))?.secret).toMatch(/^sigcb_v1_/);
    await waitFor(async () => (await room.callback('lossy')).status?.secretVersion === 3, {
      what: 'the status knows',
    });
    const { body, etag } = await endpoint('lossy');
    await room.api.expectSuccess('rotateSigningSecret', {
      params: { endpointId: body.id },
      ifMatch: etag,
      body: {},
    });
    await version('5');
    await room.told('lossy', 'SecretRotated');
  });

  it('puts back what was changed elsewhere, and makes a removed endpoint again under the next id', async () => {
    await room.createCallback('drifty', { alias: 'mine' });
    const { status } = await room.callbackBecomes('drifty', 'Ready', 'True');
    const first = await endpoint('drifty');
    const params = { endpointId: first.body.id };
    const body = { alias: 'other', url: 'http://127.0.0.1:9/elsewhere' };
    await room.api.expectSuccess('updateCallback', { params, ifMatch: first.etag, body });
    await waitFor(async () => (await endpoint('drifty')).body.alias === 'mine', {
      what: 'the alias is back',
    });
    expect((await endpoint('drifty')).body.url).toBe(url);
    await room.told('drifty', 'Drifted');
    const { etag } = await endpoint('drifty');
    await room.api.expectSuccess('deleteCallback', { params, ifMatch: etag });
    const id = `${status?.endpointId}-2`;
    await waitFor(async () => (await room.callback('drifty')).status?.endpointId === id, {
      what: 'the next id',
    });
    expect((await endpoint('drifty')).body.alias).toBe('mine');
    expect((await room.secret('drifty-signing'))?.version).toBe('1');
  });

  it('takes its address from a Secret, follows it, and never shows it', async () => {
    await room.createCallback('hidden', { url: undefined, urlSecretRef: { name: 'address', key: 'url' } });
    await room.callbackBecomes('hidden', 'Ready', 'False', 'SecretNotFound');
    const data = (text: string) => ({ url: Buffer.from(text).toString('base64') });
    await room.kube.client.create(SECRETS, {
      metadata: ref('address'),
      data: data('https://10.9.8.7/token-abc\n'),
    });
    await patch('hidden', { metadata: { annotations: { poke: '1' } } });
    const refused = await room.callbackBecomes('hidden', 'Ready', 'False', 'Refused');
    expect(JSON.stringify(refused)).not.toMatch(/10\.9\.8\.7|token-abc/);
    await room.kube.client.mergePatch(SECRETS, ref('address'), {
      data: data('http://127.0.0.1:9/token-def\n'),
    });
    const object = await room.callbackBecomes('hidden', 'Ready', 'True');
    expect((await endpoint('hidden')).body.url).toBe('http://127.0.0.1:9/token-def');
    expect(JSON.stringify([object, await room.events('hidden')])).not.toMatch(/10\.9\.8\.7|token-/);
  });

  it('says so where its alias is taken', async () => {
    await room.createCallback('holder', { alias: 'wanted' });
    await room.callbackBecomes('holder', 'Ready', 'True');
    await room.createCallback('late', { alias: 'wanted' });
    const object = await room.callbackBecomes('late', 'Ready', 'False', 'AliasConflict');
    expect(object.status?.conditions?.find(({ type }) => type === 'Ready')?.message).toContain(
      'service.conflict',
    );
    await patch('late', { spec: { alias: 'another' } });
    await room.callbackBecomes('late', 'Ready', 'True');
  });

  it('takes over the endpoint that has its alias, once it is told which one that is', async () => {
    await room.createCallback('former', { alias: 'kept', deletionPolicy: 'Orphan' });
    const { endpointId } = (await room.callbackBecomes('former', 'Ready', 'True')).status ?? {};
    expect((await room.kubectl(['delete', 'cb', 'former', '--timeout=120s'])).code).toBe(0);
    await room.createCallback('kept');
    await room.callbackBecomes('kept', 'Ready', 'False', 'AliasConflict');
    await patch('kept', { metadata: { annotations: { 'beatkeeper.dev/endpoint-id': endpointId } } });
    const { status } = await room.callbackBecomes('kept', 'Ready', 'True');
    expect(status?.endpointId).toBe(endpointId);
    await room.told('kept', 'Adopted');
  });

  it('has the secret of the endpoint that it stands for, and its alias, when it is given another one', async () => {
    await room.createCallback('left', { deletionPolicy: 'Orphan' });
    const { status } = await room.callbackBecomes('left', 'Ready', 'True');
    const endpointId = status?.endpointId ?? '';
    await room.createCallback('taking', { alias: 'taking' });
    const former = (await room.callbackBecomes('taking', 'Ready', 'True')).status?.endpointId ?? '';
    const { secret } = (await room.secret('taking-signing')) ?? {};
    expect((await room.kubectl(['delete', 'cb', 'left', '--timeout=120s'])).code).toBe(0);
    await room.kube.client.mergePatch(CALLBACKS, ref('taking'), {
      metadata: { annotations: { 'beatkeeper.dev/endpoint-id': endpointId } },
    });
    const object = await waitFor(
      async () => {
        const found = await room.callback('taking');
        const isReady = found.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True');
        return isReady && found.status?.endpointId === endpointId ? found : undefined;
      },
      { what: 'it stands for the endpoint' },
    );
    // Nobody has the secret that the endpoint had: it has a new one, of the next version.
    expect(await room.secret('taking-signing')).toMatchObject({ version: '2' });
    expect((await room.secret('taking-signing'))?.secret).not.toBe(secret);
    expect(await room.secret('taking-signing')).not.toHaveProperty('previousSecret');
    expect(object.status).toMatchObject({ alias: 'taking', secretVersion: 2 });
    const params = { endpointId: former };
    expect((await room.api.call('getCallback', { params })).status).toBe(404);
  });

  it('lets Monitors alert, and those that name it wait for it', async () => {
    await room.createMonitor('waiting', { callback: { kind: 'named', callbackRef: { name: 'pager' } } });
    await room.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    await room.createCallback('pager', { alias: 'the-pager' });
    const object = await room.monitorBecomes('waiting', 'Ready', 'True');
    expect(object.status?.display?.callback).toBe('the-pager');
    await patch('pager', { spec: { lifecycle: 'disabled' } });
    await room.callbackBecomes('pager', 'Ready', 'False', 'EndpointDisabled');
    await room.monitorBecomes('waiting', 'Ready', 'False', 'EndpointDisabled');
    await room.kube.client.delete(CALLBACKS, ref('pager'));
    await room.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    await waitFor(async () => (await room.secret('pager-signing')) === undefined, {
      what: 'its Secret is gone',
    });
  });

  it('gives the organization its default endpoint: the oldest wins, the next one follows', async () => {
    await room.createMonitor('default');
    await room.monitorBecomes('default', 'Ready', 'False', 'NoOrganizationDefault');
    await room.createCallback('oldest', { organizationDefault: true });
    await room.callbackBecomes('oldest', 'Default', 'True');
    await room.monitorBecomes('default', 'Ready', 'True');
    await nextSecond(await room.callback('oldest'));
    await room.createCallback('younger', { organizationDefault: true });
    const younger = await room.callbackBecomes('younger', 'Default', 'False', 'OlderExists');
    expect(younger.status?.conditions?.find(({ type }) => type === 'Default')?.message).toContain('oldest');
    await room.api.expectSuccess('setDefaultCallback', { body: { endpointId: younger.status?.endpointId } });
    await waitFor(async () => (await endpoint('oldest')).body.isOrganizationDefault, {
      what: 'it is put back',
    });
    await room.kube.client.delete(CALLBACKS, ref('oldest'));
    await room.callbackBecomes('younger', 'Default', 'True');
    await waitFor(async () => (await endpoint('younger')).body.isOrganizationDefault, {
      what: 'the next default',
    });
    await patch('younger', { spec: { organizationDefault: null } });
    await waitFor(async () => !(await endpoint('younger')).body.isOrganizationDefault, {
      what: 'no default',
    });
    await room.monitorBecomes('default', 'Ready', 'False', 'NoOrganizationDefault');
  });

  it('is left alone when its receiver said that it is gone, until the spec changes', async () => {
    await room.createCallback('gone');
    await room.callbackBecomes('gone', 'Ready', 'True');
    const { id } = (await endpoint('gone')).body;
    await room.fixture.pool.query(
      `update callback_endpoints set lifecycle = 'disabled', disabled_at = now(), disabled_reason = 'receiver_gone',
       generation = generation + 1 where endpoint_id = $1`,
      [id],
    );
    await room.callbackBecomes('gone', 'Ready', 'False', 'DisabledByReceiver');
    const asked = operator.calls.get('updateCallback');
    await patch('gone', { spec: { url: 'http://127.0.0.1:9/new' } });
    await room.callbackBecomes('gone', 'Ready', 'True');
    expect(operator.calls.get('updateCallback')).toBe((asked ?? 0) + 1);
  });

  it('keeps the signing secret of an inline binding in the Secret of its Monitor', async () => {
    await room.createMonitor('inline', { callback: { kind: 'inline', url } });
    await room.monitorBecomes('inline', 'Ready', 'True');
    const first = await room.secret('inline-beat');
    expect(first?.signingSecret).toMatch(/^sigcb_v1_/);
    await room.kube.client.delete(SECRETS, ref('inline-beat'));
    await room.told('inline', 'SecretRestored');
    await waitFor(async () => (await room.secret('inline-beat'))?.signingSecret !== undefined, {
      what: 'a new secret',
    });
    const second = await room.secret('inline-beat');
    expect(second?.url).toBe(first?.url);
    expect(second?.signingSecret).not.toBe(first?.signingSecret);
    await room.monitorBecomes('inline', 'Synced', 'True');
    const { status } = await room.monitor('inline');
    const params = { monitorId: status?.monitorId ?? '' };
    const { etag } = await room.api.expectSuccess('getMonitor', { params });
    const body = { binding: { kind: 'inline', url }, rotateSigningSecret: true };
    await room.api.expectSuccess('setMonitorBinding', { params, ifMatch: etag, body });
    const isNew = async () => (await room.secret('inline-beat'))?.signingSecret !== second?.signingSecret;
    await waitFor(isNew, { what: 'the rotation elsewhere is followed' });
    await room.kube.client.mergePatch(MONITORS, ref('inline'), {
      spec: { callback: { kind: 'disabled', url: null } },
    });
    await waitFor(async () => (await room.secret('inline-beat'))?.signingSecret === undefined, {
      what: 'no secret',
    });
  });

  it('shows no secret in a log line, an Event or a status', async () => {
    const names = ['oncall.team-signing', 'turning-signing', 'lossy-signing', 'inline-beat'];
    const secrets = await Promise.all(names.map((name) => room.secret(name)));
    const values = secrets.flatMap((data) => Object.values(data ?? {})).filter((value) => value.length > 10);
    expect(values.length).toBeGreaterThanOrEqual(4);
    const { stdout } = await room.kubectl(['get', 'monitors,callbacks,events', '-o', 'yaml']);
    expect(lines.length).toBeGreaterThan(0);
    for (const value of [...values, 'sigcb_v1_', 'token-abc']) {
      expect(lines.join()).not.toContain(value);
      expect(stdout).not.toContain(value);
    }
  });
});

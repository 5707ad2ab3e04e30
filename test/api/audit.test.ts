// Who changed what, in the log: one line for each change, under one name, and nothing secret in it.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type Receiver, startReceiver, status } from '../support/receiver.ts';

interface AuditLine {
  audit: { actor: { kind: string; id: string }; action: string; object: Record<string, string> };
  requestId?: string;
}

let api: ApiFixture;
let receiver: Receiver;
let lines: string[] = [];
const audited = () =>
  lines.map((line) => JSON.parse(line) as Partial<AuditLine>).filter(({ audit }) => audit !== undefined);

beforeAll(async () => {
  // The least of all levels: audit lines are there all the same.
  const log = createLog({ role: 'api', level: 'error' }, { write: (line: string) => void lines.push(line) });
  api = await openApiFixture({ log, config: { allowedPrivateDestinations: '127.0.0.0/8' } });
  receiver = await startReceiver(status(410));
});
beforeEach(() => {
  lines = [];
});
afterAll(async () => {
  await api?.close();
  await receiver?.close();
});

it('each change of a credential, endpoint, default or project has an audit line with actor, action, object and request', async () => {
  const { projectId, organizationId } = api;
  const requests: (string | null)[] = [];
  const told = <T extends { headers: Headers }>(answer: T): T => {
    requests.push(answer.headers.get('x-request-id'));
    return answer;
  };
  const project = told(await api.operator.expectSuccess('createProject', { body: { name: 'audited' } }));
  const projectParams = { projectId: project.body.projectId };
  const rename = { params: projectParams, ifMatch: project.etag, body: { name: 'renamed' } };
  told(await api.owner.expectSuccess('updateProject', rename));

  const credential = told(
    await api.owner.expectSuccess('createCredential', { body: { name: 'ci', preset: 'read' } }),
  );
  const { credentialId } = credential.body.credential;
  const params = { credentialId };
  const turned = told(
    await api.owner.expectSuccess('rotateCredential', { params, ifMatch: credential.etag, body: {} }),
  );
  told(await api.owner.expectSuccess('revokeCredential', { params, ifMatch: turned.etag }));

  const body = { alias: 'audited', url: `${receiver.url}/s3cret` };
  const endpoint = told(await api.manage.expectSuccess('createCallback', { body }));
  const { id: endpointId } = endpoint.body.endpoint;
  const of = { params: { endpointId } };
  told(await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId } }));
  told(await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } }));
  const patch = { ...of, ifMatch: endpoint.etag, body: { alias: 'other' } };
  const updated = told(await api.member.expectSuccess('updateCallback', patch));
  const rotation = { ...of, ifMatch: updated.etag, body: {} };
  const rotated = told(await api.manage.expectSuccess('rotateSigningSecret', rotation));
  told(await api.manage.expectSuccess('testCallback', { ...of, body: {} }));
  const { etag } = await api.manage.expectSuccess('getCallback', of);
  told(await api.manage.expectSuccess('deleteCallback', { ...of, ifMatch: etag }));

  const owner = { kind: 'session', id: 'owner@acme', display: 'owner of acme (owner@acme)' };
  const manage = { kind: 'api_credential', id: expect.any(String), display: 'manage' };
  const system = { kind: 'system', id: 'beatkeeper', display: 'Beatkeeper' };
  const ofProject = { kind: 'project', id: projectParams.projectId, projectId: projectParams.projectId };
  const ofCredential = { kind: 'credential', id: credentialId, projectId };
  const ofEndpoint = { kind: 'endpoint', id: endpointId, projectId };
  expect(audited().map(({ audit }) => audit)).toEqual([
    { action: 'project.create', actor: expect.objectContaining({ kind: 'operator' }), object: ofProject },
    { action: 'project.rename', actor: owner, object: ofProject },
    { action: 'credential.create', actor: owner, object: ofCredential },
    { action: 'credential.rotate', actor: owner, object: ofCredential },
    { action: 'credential.revoke', actor: owner, object: ofCredential },
    { action: 'endpoint.create', actor: manage, object: ofEndpoint },
    { action: 'default_endpoint.set', actor: owner, object: ofEndpoint },
    { action: 'default_endpoint.clear', actor: owner, object: { kind: 'organization', id: organizationId } },
    { action: 'endpoint.update', actor: expect.objectContaining({ id: 'member@acme' }), object: ofEndpoint },
    { action: 'endpoint.rotate_secret', actor: manage, object: ofEndpoint },
    { action: 'endpoint.disable', actor: system, object: ofEndpoint },
    { action: 'endpoint.remove', actor: manage, object: ofEndpoint },
  ]);
  expect(audited().map(({ requestId }) => requestId)).toEqual(requests);
  const secrets = [credential.body.secret, turned.body.secret, rotated.body.signingSecret?.secret, 's3cret'];
  for (const secret of secrets) expect(lines.join('')).not.toContain(secret);
});

it('a call that changes nothing, is refused or is repeated has no audit line', async () => {
  const body = { alias: 'quiet', url: 'http://127.0.0.1:9/hook' };
  const create = { body, idempotencyKey: 'quiet' };
  const made = await api.manage.expectSuccess('createCallback', create);
  await api.manage.expectSuccess('createCallback', create);
  const endpointId = made.body.endpoint.id;
  const update = { params: { endpointId }, ifMatch: made.etag, body: { alias: 'quiet' } };
  await api.manage.expectSuccess('updateCallback', update);
  expect((await api.read.call('updateCallback', update)).status).toBe(403);
  const stale = { ...update, ifMatch: '"callback-endpoint-7"', body: { alias: 'louder' } };
  expect((await api.manage.call('updateCallback', stale)).status).toBe(412);
  await api.owner.expectSuccess('setDefaultCallback', { body: { endpointId: null } });
  const issued = await api.owner.expectSuccess('createCredential', {
    body: { name: 'gone', preset: 'read' },
  });
  const params = { credentialId: issued.body.credential.credentialId };
  await api.owner.expectSuccess('revokeCredential', { params, ifMatch: issued.etag });
  const { etag } = await api.owner.expectSuccess('getCredential', { params });
  await api.owner.expectSuccess('revokeCredential', { params, ifMatch: etag });
  const project = await api.owner.expectSuccess('getProject', { params: { projectId: api.projectId } });
  const rename = {
    params: { projectId: api.projectId },
    ifMatch: project.etag,
    body: { name: api.projectName },
  };
  await api.owner.expectSuccess('updateProject', rename);
  expect(audited().map(({ audit }) => audit?.action)).toEqual([
    'endpoint.create',
    'credential.create',
    'credential.revoke',
  ]);
});

it('each change of where the alerts of a monitor go has an audit line with the monitor and its inline endpoint', async () => {
  const { projectId } = api;
  const requests: (string | null)[] = [];
  const told = <T extends { headers: Headers }>(answer: T): T => {
    requests.push(answer.headers.get('x-request-id'));
    return answer;
  };
  const inline = (path: string) => ({ kind: 'inline', url: `http://127.0.0.1:9/${path}` }) as const;
  const body = { name: 'bound', callback: inline('s3cret-1'), jurisdiction: 'eu' } as const;
  const create = { body, idempotencyKey: 'bound' };
  const made = told(await api.manage.expectSuccess('createMonitor', create));
  await api.manage.expectSuccess('createMonitor', create);
  const params = { monitorId: made.body.monitorId };
  const endpointIdNow = async () =>
    (await api.manage.expectSuccess('getMonitorBinding', { params })).body.target?.endpointId;
  const first = await endpointIdNow();
  let ifMatch = made.etag;
  const bind = async (binding: object, rotateSigningSecret?: boolean) => {
    const request = { params, ifMatch, body: { binding, rotateSigningSecret } as never };
    const answer = await api.member.expectSuccess('setMonitorBinding', request);
    ifMatch = answer.etag;
    return answer;
  };
  told(await bind(inline('s3cret-2')));
  await bind(inline('s3cret-2'));
  const rotated = told(await bind(inline('s3cret-2'), true));
  const both = told(await bind(inline('s3cret-3'), true));
  told(both);
  told(await bind({ kind: 'named', alias: 'pager' }));
  told(await bind({ kind: 'disabled' }));
  told(await bind(inline('s3cret-4')));
  const second = await endpointIdNow();
  told(await api.manage.expectSuccess('deleteMonitor', { params, ifMatch }));
  const other = await api.manage.expectSuccess('createMonitor', { body: { name: 'not inline' } });
  const { monitorId } = other.body;
  await api.manage.expectSuccess('deleteMonitor', { params: { monitorId }, ifMatch: other.etag });

  const member = expect.objectContaining({ id: 'member@acme' });
  const manage = expect.objectContaining({ kind: 'api_credential' });
  const monitor = { kind: 'monitor', id: params.monitorId, projectId, jurisdiction: 'eu' };
  const ofFirst = { ...monitor, endpointId: first };
  const ofSecond = { ...monitor, endpointId: second };
  expect(audited().map(({ audit }) => audit)).toEqual([
    { action: 'binding.set', actor: manage, object: ofFirst },
    { action: 'binding.set', actor: member, object: ofFirst },
    { action: 'binding.rotate_secret', actor: member, object: ofFirst },
    { action: 'binding.set', actor: member, object: ofFirst },
    { action: 'binding.rotate_secret', actor: member, object: ofFirst },
    { action: 'binding.set', actor: member, object: ofFirst },
    { action: 'binding.set', actor: member, object: monitor },
    { action: 'binding.set', actor: member, object: ofSecond },
    { action: 'binding.remove', actor: manage, object: ofSecond },
  ]);
  expect(audited().map(({ requestId }) => requestId)).toEqual(requests);
  const secrets = [made, rotated, both].map((answer) => answer.body.signingSecret?.secret ?? '');
  for (const secret of [...secrets, 's3cret']) expect(lines.join('')).not.toContain(secret);
});

/** What the body, or the answer, of a write has that changes what is audited. */
const TAKEN = ['alias', 'binding', 'callback', 'preset', 'rotateSigningSecret', 'url'];
const SHOWN = ['secret', 'signingSecret'];

/** Writes that change no credential, no endpoint, no project and not where alerts go. */
const NOT_AUDITED = [
  'acknowledgeIncident',
  'applyDraft',
  'cancelDraft',
  'changeMonitorLifecycle',
  'checkDestinations',
  'clearMonitorBeatenBy',
  'createDraft',
  'noteIncident',
  'redeliver',
  'reportMonitorOrigins',
  'resolveIncident',
  'rotatePublishUrl',
  'setMonitorBeatenBy',
  'setMonitorOrigin',
  'setOperatorCauses',
  'signOperator',
  'updateDraft',
  'updateMonitor',
];

it('every write is audited but those that change no credential, endpoint, binding or project', () => {
  const operations: OperationSpec[] = Object.values(contractOperations({ minimumIntervalSeconds: 60 }));
  const writes = operations.filter(({ method, changesNothing }) => method !== 'GET' && !changesNothing);
  const others = writes.filter(({ audited: isAudited }) => !isAudited);
  expect(others.map(({ operationId }) => operationId).toSorted()).toEqual(NOT_AUDITED);
  for (const spec of others) {
    const taken = propertiesOf(spec.body).filter((name) => TAKEN.includes(name));
    const shown = propertiesOf(spec.response).filter((name) => SHOWN.includes(name));
    expect([...taken, ...shown], spec.operationId).toEqual([]);
  }
});

/** The names of all properties that a schema describes, at any depth. */
function propertiesOf(schema: z.ZodType = z.object()): string[] {
  const names = new Set<string>();
  JSON.stringify(z.toJSONSchema(schema, { unrepresentable: 'any' }), (key, value) => {
    if (key === 'properties') for (const name of Object.keys(value)) names.add(name);
    return value;
  });
  return [...names];
}

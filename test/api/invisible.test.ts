// What a principal may not see is 404, on writes too; what it may see and not change is 403 (docs/contract/calls.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operationUrl } from '../../src/contract/operations/operation.ts';
import { contractOperations, type OperationId } from '../../src/contract/operations/operations.ts';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { absentIds, CLOSED_URL, fillProject, type Ids } from '../support/filled-project.ts';
import { sendRaw } from '../support/raw-http.ts';
import { seedCredential } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const operations = contractOperations();
let api: ApiFixture;
/** A reader of another project of the same organization. */
let neighbor: ApiClient;
let ids: Ids;

beforeAll(async () => {
  api = await openApiFixture();
  const sibling = await api.owner.expectSuccess('createProject', { body: { name: 'sibling' } });
  const { projectId } = sibling.body;
  neighbor = api.read.as(await seedCredential(api.pool, { projectId, preset: 'read' }));
  ids = (await fillProject(api)).ids;
});
afterAll(async () => {
  await api?.close();
});

const statusOf = async (client: ApiClient, id: OperationId, params: Record<string, string>) =>
  (await client.call(id, { params })).status;

/** Of what a project has, each write that a reader may not make. */
const writes = Object.values(operations)
  .filter(({ path, preset }) => /\{(?!operatorId)/.test(path) && ['manage', 'operator'].includes(preset))
  .map(({ operationId }) => operationId as OperationId);

describe('a write that the caller may not make', () => {
  it.each(writes)("%s is 403 for a reader of the project, and 404 for one of another's", async (id) => {
    for (const client of [api.read, api.viewer]) expect(await statusOf(client, id, ids)).toBe(403);
    expect(await statusOf(neighbor, id, ids)).toBe(404);
  });

  it.each(writes)('%s is 404 for a reader where there is no such resource', async (id) => {
    for (const client of [api.read, api.viewer]) expect(await statusOf(client, id, absentIds(ids))).toBe(404);
  });

  it('the refusal is the same for what another project has and for what nobody has', async () => {
    const refusals = [ids, absentIds(ids)].map(async (params) => {
      const { problem } = await neighbor.call('deleteMonitor', { params });
      return { ...problem, correlationId: '' };
    });
    const [ofAnother, ofNobody] = await Promise.all(refusals);
    expect(ofAnother).toEqual(ofNobody);
    expect(ofAnother).toMatchObject({ code: 'service.not_found' });
  });

  it("renaming a project is 404 for another organization and another project's credential, else 403", async () => {
    const params = { projectId: api.projectId };
    for (const client of [api.manage, api.read, api.member, api.viewer, api.operator]) {
      expect(await statusOf(client, 'updateProject', params)).toBe(403);
    }
    const rename = { params, body: { name: 'mine' }, ifMatch: '"project-1"' };
    for (const client of [neighbor, api.other.manage, api.other.owner]) {
      const { problem } = await client.call('updateProject', rename);
      expect(problem).toMatchObject({ status: 404, code: 'service.not_found' });
    }
    expect(await statusOf(api.viewer, 'updateProject', absentIds(ids))).toBe(404);
  });

  it("credentials are the owner's: others get 403 whatever the id is", async () => {
    for (const params of [
      { credentialId: ids.credentialId },
      { credentialId: '0'.repeat(32) },
      { credentialId: 'none' },
    ]) {
      for (const id of ['getCredential', 'revokeCredential', 'rotateCredential'] as const) {
        for (const client of [api.manage, api.read, api.member, api.operator, api.other.manage]) {
          expect(await statusOf(client, id, params)).toBe(403);
        }
      }
    }
  });

  it('a removed endpoint, and that of an inline binding, are 404 for a reader as for all', async () => {
    const made = await api.manage.expectSuccess('createCallback', {
      body: { alias: randomUUID(), url: CLOSED_URL },
    });
    const endpointId = made.body.endpoint.id;
    await api.manage.expectSuccess('deleteCallback', { params: { endpointId }, ifMatch: made.etag });
    const inline = await api.manage.expectSuccess('createMonitor', {
      body: { name: 'inline', callback: { kind: 'inline', url: CLOSED_URL } },
    });
    const { monitorId } = inline.body;
    const bound = await api.read.expectSuccess('getMonitorBinding', { params: { monitorId } });
    for (const id of [endpointId, bound.body.target?.endpointId ?? '']) {
      expect(await statusOf(api.read, 'testCallback', { endpointId: id })).toBe(404);
    }
  });

  it('an id that none can have is refused without a look at the database', async () => {
    const refusalOf = async (id: string, [folder, action]: readonly [string, string]) => {
      const headers = { authorization: `Bearer ${api.tokens.read}` };
      const response = await fetch(`${api.url}/v1/${folder}/${id}/${action}`, { method: 'POST', headers });
      return response.status;
    };
    const lifecycle = ['monitors', 'lifecycle'] as const;
    const holder = await api.pool.connect();
    try {
      await holder.query('begin; lock table monitors, incidents, deliveries in access exclusive mode');
      for (const id of ['%00', '%ff', 'a%2Fb', "'", '%F0%9F%92%A9', 'x'.repeat(300)]) {
        for (const place of [lifecycle, ['incidents', 'note'], ['deliveries', 'redeliver']] as const) {
          expect([400, 404]).toContain(await refusalOf(id, place));
        }
      }
      // Others are looked up, and would wait for the lock.
      const looked = refusalOf(ids.monitorId, lifecycle);
      const waiting = 'select from pg_locks where not granted';
      await waitFor(async () => (await api.pool.query(waiting)).rowCount, { what: 'the lock is waited for' });
      await holder.query('rollback');
      expect(await looked).toBe(403);
    } finally {
      holder.release(true);
    }
  });

  it('the refusal comes before the body is read', async () => {
    for (const [params, status] of [
      [ids, 403],
      [absentIds(ids), 404],
    ] as const) {
      const head = [
        `PATCH ${operationUrl(operations.updateMonitor, { params })} HTTP/1.1`,
        'Host: api',
        `Authorization: Bearer ${api.tokens.read}`,
        'Content-Type: text/plain',
        'Content-Length: 1000000',
      ];
      const until = (text: string) => text.includes('\r\n\r\n');
      const answer = await sendRaw(api.url, `${head.join('\r\n')}\r\n\r\n`, { until });
      expect(answer).toContain(`HTTP/1.1 ${status} `);
    }
  });
});

it('refused calls count as requests of the project, so that asking for ids is as slow as reading', async () => {
  const free = await openApiFixture({ plan: 'free' });
  try {
    const answers = await Promise.all(
      // More than two minutes' worth: the minute may end meanwhile.
      Array.from({ length: 130 }, () => free.read.call('deleteMonitor', { params: { monitorId: 'none' } })),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404, 429]));
  } finally {
    await free.close();
  }
});

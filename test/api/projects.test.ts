// Projects: names, ETags, and who may read and change them.
// Holds: listProjects, createProject, getProject, updateProject.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

describe('projects', () => {
  it('owners and the operator create projects, which are read back with an ETag', async () => {
    for (const client of [api.owner, api.operator]) {
      const name = `made-${crypto.randomUUID()}`;
      const made = await client.expectSuccess('createProject', { body: { name } });
      expect(made.status).toBe(201);
      expect(made.body).toMatchObject({ name, version: 1 });
      expect(made.etag).toBe('"project-1"');
      const { projectId } = made.body;
      const read = await client.expectSuccess('getProject', { params: { projectId } });
      expect(read.body).toEqual(made.body);
      expect(read.etag).toBe(made.etag);
    }
  });

  it('a project name is unique in its organization, ignoring case and extra spaces', async () => {
    await api.owner.expectSuccess('createProject', { body: { name: 'Night  Jobs' } });
    for (const name of ['night jobs', '  NIGHT JOBS ', 'Night\u00a0Jobs']) {
      const second = await api.owner.call('createProject', { body: { name } });
      expect(second.problem).toMatchObject({ status: 409, code: 'service.conflict', retryable: false });
    }
    await api.owner.expectSuccess('createProject', { body: { name: 'Große ΟΔΟΣ ǰ' } });
    for (const name of ['GROSSE οδος ǰ', 'große οδοσ J\u030c', 'Gro\u1e9ee ΟΔΟΣ ǰ']) {
      expect([name, (await api.owner.call('createProject', { body: { name } })).status]).toEqual([name, 409]);
    }
    const elsewhere = await api.other.owner.call('createProject', { body: { name: 'night jobs' } });
    expect(elsewhere.status).toBe(201);
  });

  it('a project name is trimmed, with 1 to 64 characters and no control characters', async () => {
    const made = await api.owner.expectSuccess('createProject', { body: { name: `  ${'ü'.repeat(64)} ` } });
    expect(made.body.name).toBe('ü'.repeat(64));
    for (const name of ['', '   ', 'x'.repeat(65), 'a\u0007b', 7, null, undefined]) {
      const refused = await api.owner.call('createProject', { body: { name } });
      expect(refused.problem).toMatchObject({ code: 'service.validation_failed' });
      expect(refused.problem?.fieldErrors?.[0]?.path).toBe('name');
    }
  });

  it('an owner renames a project by its ETag, and Service-Project takes the new name at once', async () => {
    const made = await api.owner.expectSuccess('createProject', { body: { name: 'before' } });
    const params = { projectId: made.body.projectId };
    const call = { params, body: { name: 'after' } };
    expect((await api.owner.call('updateProject', call)).status).toBe(428);
    expect((await api.owner.call('updateProject', { ...call, ifMatch: '"project-2"' })).status).toBe(412);
    expect((await api.owner.call('updateProject', { ...call, ifMatch: '"credential-1"' })).status).toBe(412);
    expect((await api.owner.call('updateProject', { ...call, ifMatch: '*' })).status).toBe(400);
    const renamed = await api.owner.expectSuccess('updateProject', { ...call, ifMatch: made.etag });
    expect(renamed.body).toMatchObject({ name: 'after', version: 2 });
    expect(renamed.etag).toBe('"project-2"');
    const byNewName = api.owner.as(api.tokens.owner, 'AFTER');
    expect((await byNewName.call('listCredentials')).status).toBe(200);
    const byOldName = api.owner.as(api.tokens.owner, 'before');
    expect((await byOldName.call('listCredentials')).status).toBe(404);
    expect(renamed.body.formerNames).toEqual(['before']);
    const taken = { params, body: { name: api.projectName }, ifMatch: renamed.etag };
    expect((await api.owner.call('updateProject', taken)).problem?.code).toBe('service.conflict');
  });

  it('a project remembers its last ten former names, each once, and not the one that it has', async () => {
    const made = await api.owner.expectSuccess('createProject', { body: { name: 'name 0' } });
    const params = { projectId: made.body.projectId };
    let { etag: ifMatch, body } = made;
    const rename = async (name: string) => {
      ({ etag: ifMatch, body } = await api.owner.expectSuccess('updateProject', {
        ...{ params, ifMatch },
        body: { name },
      }));
      return body.formerNames;
    };
    expect(body.formerNames).toEqual([]);
    expect(await rename('Name  0')).toEqual([]);
    await rename('name 1');
    expect(await rename('name 0')).toEqual(['name 1']);
    for (let index = 2; index < 12; index += 1) await rename(`name ${index}`);
    const latest = await rename('name 12');
    expect(latest).toEqual([11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((index) => `name ${index}`));
  });

  it('a credential sees its own project, a session all projects of its organization', async () => {
    const own = await api.read.expectSuccess('listProjects');
    expect(own.body.items.map(({ projectId }) => projectId)).toEqual([api.projectId]);
    const made = await api.owner.expectSuccess('createProject', { body: { name: 'not of the credential' } });
    const { projectId } = made.body;
    expect((await api.read.call('getProject', { params: { projectId } })).status).toBe(404);
    expect((await api.viewer.call('getProject', { params: { projectId } })).status).toBe(200);
    for (const client of [api.other.owner, api.other.manage]) {
      const foreign = await client.call('getProject', { params: { projectId } });
      expect(foreign.problem).toMatchObject({ status: 404, code: 'service.not_found' });
      const rename = { params: { projectId }, body: { name: 'mine' }, ifMatch: '"project-1"' };
      expect([403, 404]).toContain((await client.call('updateProject', rename)).status);
    }
  });

  it('members, viewers and credentials create no project, and only owners rename one', async () => {
    const rename = { params: { projectId: api.projectId }, body: { name: 'x' }, ifMatch: '"project-1"' };
    for (const client of [api.manage, api.read, api.member, api.viewer]) {
      expect((await client.call('createProject', { body: { name: 'x' } })).status).toBe(403);
      expect((await client.call('updateProject', rename)).status).toBe(403);
    }
    expect((await api.operator.call('updateProject', rename)).status).toBe(403);
  });

  it('projects are listed newest first, in pages without a gap or a repeat', async () => {
    for (let index = 0; index < 5; index += 1) {
      await api.other.owner.expectSuccess('createProject', { body: { name: `page-${index}` } });
    }
    const names: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await api.other.owner.expectSuccess('listProjects', { query: { limit: 2, cursor } });
      names.push(...page.body.items.map(({ name }) => name));
      cursor = page.body.nextCursor;
    } while (cursor !== undefined);
    expect(names.slice(0, 5)).toEqual(['page-4', 'page-3', 'page-2', 'page-1', 'page-0']);
    expect(new Set(names).size).toBe(names.length);
  });
});

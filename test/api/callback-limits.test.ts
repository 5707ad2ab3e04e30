// The plan's allowance of callback endpoints, counted over the whole organization.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;
beforeAll(async () => {
  api = await openApiFixture({ plan: 'free' });
});
afterAll(async () => {
  await api?.close();
});

it('the plan free allows two endpoints in all projects together, also when many are created at once', async () => {
  const { body: project } = await api.owner.expectSuccess('createProject', { body: { name: 'second' } });
  const clients = [api.manage, api.owner.as(api.tokens.owner, project.projectId)];
  const create = (client = api.manage) =>
    client.call('createCallback', { body: { alias: `a-${randomUUID()}`, url: 'http://127.0.0.1:9/' } });
  const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => create(clients[index % 2])));
  const made = answers.filter((answer) => answer.status === 201);
  expect(made).toHaveLength(2);
  for (const { problem } of answers.filter((answer) => answer.status !== 201)) {
    expect(problem).toMatchObject({
      status: 403,
      code: 'service.plan_limit_reached',
      limit: {
        dimension: 'callback_endpoints',
        limit: 2,
        current: 2,
        attempted: 3,
        plan: { id: 'free' },
        remediation: 'upgrade_plan',
      },
    });
  }
  const [first] = made;
  const owner = first?.body.endpoint.projectId === api.projectId ? clients[0] : clients[1];
  await owner?.expectSuccess('deleteCallback', {
    params: { endpointId: first?.body.endpoint.id ?? '' },
    ifMatch: first?.etag ?? '',
  });
  expect((await create()).status).toBe(201);
  expect((await create()).problem?.status).toBe(403);
});

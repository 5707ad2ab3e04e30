// An organization that is suspended: writes are refused, reads go on (docs/contract/organization.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type FilledProject, fillProject, OPERATIONS, requestOn } from '../support/filled-project.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
let filled: FilledProject;
beforeAll(async () => {
  api = await openApiFixture();
  filled = await fillProject(api);
});
afterAll(async () => {
  await api?.close();
});

const setState = (state: string) =>
  api.pool.query(
    'update organizations set service_state = $2, grace_ends_at = clock_timestamp() where organization_id = $1',
    [api.organizationId, state],
  );
const write = () => api.owner.call('createProject', { body: { name: crypto.randomUUID() } });

it('a canceled organization may read and not write', async () => {
  const state = 'canceled';
  await setState(state);
  const refused = await waitFor(async () => {
    const answer = await write();
    return answer.status === 403 ? answer : undefined;
  });
  expect(refused.problem).toMatchObject({
    code: 'service.service_suspended',
    limit: { dimension: 'service_state', serviceState: state, remediation: 'contact_support' },
  });
  expect((await api.owner.call('listProjects')).status).toBe(200);
  expect((await api.owner.call('listCredentials')).status).toBe(200); // a read, for owners only
  expect((await api.other.owner.call('createProject', { body: { name: state } })).status).toBe(201);
});

it.each(['abuse_suspended', 'canceled', 'deleting'])(
  'in the state %s every operation that changes something is refused, and no other one',
  async (serviceState) => {
    await setState(serviceState);
    const { owner, operator } = api;
    for (const client of [owner, operator])
      await waitFor(async () => {
        const { problem } = await client.call('createProject', { body: { name: crypto.randomUUID() } });
        return problem?.limit?.serviceState === serviceState;
      });
    for (const spec of OPERATIONS) {
      const client = spec.preset === 'operator' ? operator : owner;
      const { problem } = await client.call(spec.operationId, requestOn(filled, spec));
      const changes = spec.method !== 'GET' && !spec.changesNothing;
      const isSuspended = problem?.code === 'service.service_suspended';
      expect([spec.operationId, isSuspended]).toEqual([spec.operationId, changes]);
      if (!changes) continue;
      const limit = { dimension: 'service_state', serviceState, remediation: 'contact_support' };
      expect(problem).toMatchObject({ status: 403, limit });
    }
  },
);

it('an organization in payment grace may read and write', async () => {
  await setState('payment_grace');
  await waitFor(async () => (await write()).status === 201);
});

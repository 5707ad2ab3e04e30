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
    remediation: [{ code: 'read_billing', documentation: '/docs#getBilling' }],
  });
  expect((await api.owner.call('listProjects')).status).toBe(200);
  expect((await api.owner.call('listCredentials')).status).toBe(200); // a read, for owners only
  expect((await api.other.owner.call('createProject', { body: { name: state } })).status).toBe(201);
});

it.each([
  ['abuse_suspended', 'contact_support'],
  ['canceled', 'contact_support'],
  ['deleting', 'export_data'],
])(
  'in the state %s every operation that changes something is refused with the advice %s, and no other one',
  async (serviceState, remediation) => {
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
      const limit = { dimension: 'service_state', serviceState, remediation };
      expect(problem).toMatchObject({ status: 403, limit });
    }
  },
);

it('an organization in payment grace may read and write', async () => {
  await setState('payment_grace');
  await waitFor(async () => (await write()).status === 201);
});

it('a change right after a suspension that no sweeper saw leaves a full interval and grace', async () => {
  await setState('active');
  await waitFor(async () => (await write()).status === 201);
  const { body, etag: ifMatch } = await api.manage.expectSuccess('createMonitor', {
    body: { name: 'Job', intervalSeconds: 3_600, graceSeconds: 60, awaitFirstBeat: false },
  });
  const params = { monitorId: body.monitorId };
  const setDeadline = (ms: number) =>
    api.pool.query('update monitor_live set anchor_ms = $1, deadline_ms = $2 where deadline_ms is not null', [
      ms - 3_660_000,
      ms,
    ]);
  await setDeadline(Date.now() - 60_000);
  await api.pool.query('update organizations set returned_at = clock_timestamp()');
  const { body: changed } = await api.manage.expectSuccess('updateMonitor', {
    ...{ params, ifMatch },
    body: { patch: { graceSeconds: 120 } },
  });
  const leftMs = Date.parse(changed.status.nextDeadlineAt ?? '') - Date.parse(changed.updatedAt);
  expect(leftMs).toBe(3_720_000);
});

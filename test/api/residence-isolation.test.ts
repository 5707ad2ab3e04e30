// Strangers see nothing of what is in the database of a jurisdiction, by any operation on monitors, incidents and deliveries,
// and who may see it finds it by each (docs/contract/tenancy.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PathParameter } from '../../src/contract/operations/operations.ts';
import { rowsOfProject } from '../support/all-rows.ts';
import type { ApiRequest } from '../support/api-client.ts';
import {
  absentIds,
  type FilledProject,
  OPERATIONS,
  pathNames,
  requestOn,
} from '../support/filled-project.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { makeMonitor } from './monitor-fixture.ts';

let api: ResidenceFixture;
let filled: FilledProject;
beforeAll(async () => {
  api = await openResidenceFixture();
  const { monitorId, fail } = await makeMonitor(api, { jurisdiction: 'eu' });
  const incidentId = await fail();
  const { body } = await api.manage.expectSuccess('listIncidentDeliveries', { params: { incidentId } });
  const deliveryId = body.items[0]?.deliveryId ?? '';
  const { projectId } = api;
  filled = {
    alias: 'none',
    ids: { monitorId, incidentId, deliveryId, projectId, endpointId: 'none', credentialId: 'none' },
  };
});
afterAll(() => api.close());

const RESIDENT: readonly PathParameter[] = ['monitorId', 'incidentId', 'deliveryId'];
/** Names no jurisdiction. */
function everywhere({ query: { jurisdiction: _, ...query } = {}, ...request }: ApiRequest): ApiRequest {
  return { ...request, query };
}

const specs = OPERATIONS.filter((spec) => pathNames(spec).some((name) => RESIDENT.includes(name)));

it.each(specs.map((spec) => [spec.operationId, spec] as const))(
  '%s answers strangers as if there were no such thing',
  async (id, spec) => {
    const request = everywhere(requestOn(filled, spec));
    const absent = everywhere(requestOn({ ...filled, ids: absentIds(filled.ids) }, spec));
    const before = await rowsOfProject(api.eu, api.projectId);
    for (const stranger of [api.other.manage, api.other.owner]) {
      const { problem } = await stranger.call(id, request);
      expect([id, problem?.code]).toEqual([id, 'service.not_found']);
      const { problem: unknown } = await stranger.call(id, absent);
      expect({ ...problem, correlationId: '' }).toEqual({ ...unknown, correlationId: '' });
    }
    expect(await rowsOfProject(api.eu, api.projectId)).toEqual(before);
  },
);

it.each(specs.filter(({ method }) => method === 'GET').map((spec) => [spec.operationId, spec] as const))(
  '%s finds it without a jurisdiction',
  async (id, spec) => {
    const { status } = await api.manage.call(id, everywhere(requestOn(filled, spec)));
    expect([id, status]).toEqual([id, 200]);
  },
);

// One id in two jurisdictions: every operation on it is a conflict until the query names one (docs/contract/monitors.md). The
// calls follow from the table of operations.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  type FilledProject,
  fillProject,
  OPERATIONS,
  type Operation,
  pathNames,
  requestOn,
} from '../support/filled-project.ts';

let api: ApiFixture;
/** Its monitor is in `unrestricted`. */
let filled: FilledProject;
const twin = `in-eu-${randomUUID()}`;
beforeAll(async () => {
  api = await openApiFixture();
  filled = await fillProject(api);
  const { monitorId } = filled.ids;
  await api.manage.expectSuccess('createMonitor', { body: { monitorId, name: twin, jurisdiction: 'eu' } });
});
afterAll(async () => {
  await api?.close();
});

const ofMonitor = OPERATIONS.filter((spec) => pathNames(spec).includes('monitorId'));
const named = (specs: readonly Operation[]) => specs.map((spec) => [spec.operationId, spec] as const);
const clientFor = ({ preset }: Operation) => (preset === 'operator' ? api.operator : api.owner);

it.each(named(ofMonitor))('%s is a conflict where the id is in two jurisdictions', async (id, spec) => {
  const { query: { jurisdiction: _, ...query } = {}, ...request } = requestOn(filled, spec);
  const { problem } = await clientFor(spec).call(id, { ...request, query });
  expect([id, problem]).toEqual([
    id,
    expect.objectContaining({
      status: 409,
      code: 'service.conflict',
      detail: 'This monitorId exists in more than one jurisdiction: name one with ?jurisdiction=.',
    }),
  ]);
});

/** What belongs to the monitor is in one of the two. */
const namesMonitorAlone = (spec: Operation) => pathNames(spec).length === 1;

it.each(named(ofMonitor.filter((spec) => spec.method === 'GET' && namesMonitorAlone(spec))))(
  '%s finds the monitor of the jurisdiction that the query names',
  async (id, spec) => {
    const { query, ...request } = requestOn(filled, spec);
    for (const jurisdiction of ['unrestricted', 'eu']) {
      const answer = await api.owner.call(id, { ...request, query: { ...query, jurisdiction } });
      expect([id, jurisdiction, answer.status]).toEqual([id, jurisdiction, 200]);
    }
  },
);

it('a change of one of the two leaves the other one as it is', async () => {
  const params = { monitorId: filled.ids.monitorId };
  const eu = { params, query: { jurisdiction: 'eu' } };
  await api.manage.expectSuccess('updateMonitor', {
    ...eu,
    ifMatch: '"configuration-1"',
    body: { patch: { description: 'Of the EU' } },
  });
  await api.manage.expectSuccess('deleteMonitor', { ...eu, ifMatch: '"configuration-2"' });
  const { body, etag } = await api.read.expectSuccess('getMonitor', { params });
  expect([body.jurisdiction, body.description, etag]).toEqual([
    'unrestricted',
    undefined,
    '"configuration-1"',
  ]);
});

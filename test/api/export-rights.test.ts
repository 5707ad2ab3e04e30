// Who gets which export, and in which format.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Problem } from '../../src/contract/resources/problem.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import { cellsOf, fetchExport, ofType, readExport, recordsOf } from '../support/export-reader.ts';
import { DAY_MS } from '../support/past-beats.ts';
import type { SeedMonitor } from '../support/seed.ts';
import { type ExportFixture, openExportFixture } from './export-fixture.ts';

let api: ApiFixture;
let second: SeedMonitor;
let foreign: SeedMonitor;
let asCredential: ExportFixture['asCredential'];
let asOwner: ExportFixture['asOwner'];

beforeAll(async () => {
  ({ api, second, foreign, asCredential, asOwner } = await openExportFixture());
});
afterAll(() => api?.close());

const problemOf = async (answer: Response) => (await answer.json()) as Problem;

const projectsOf = (text: string) =>
  [
    ...new Set(
      recordsOf(text).flatMap((record) =>
        'projectId' in record && record.projectId ? [record.projectId] : [],
      ),
    ),
  ].sort();

it('a credential gets its project, and nothing of another one', async () => {
  expect(projectsOf(await readExport(asCredential()))).toEqual([api.projectId]);
});

it('an owner gets the organization, or the project that the session names', async () => {
  const both = [api.projectId, second.projectId].sort();
  const whole = await readExport(asOwner());
  expect(projectsOf(whole)).toEqual(both);
  expect(whole.includes(foreign.monitorId)).toBe(false);
  expect(projectsOf(await readExport(asOwner({ project: 'second' })))).toEqual([second.projectId]);
});

it.each(['member', 'viewer', 'operator'] as const)(
  'a session of role %s must name a project',
  async (role) => {
    const token = api.tokens[role];
    const refused = await fetchExport(asCredential({ token }));
    expect(refused.status).toBe(400);
    expect((await problemOf(refused)).fieldErrors).toMatchObject([
      { path: 'Service-Project', code: 'required' },
    ]);
    expect(projectsOf(await readExport(asCredential({ token, project: 'second' })))).toEqual([
      second.projectId,
    ]);
  },
);

it('the project of another organization is not found', async () => {
  const answer = await fetchExport(asOwner({ project: api.other.projectId }));
  expect([answer.status, (await problemOf(answer)).code]).toEqual([404, 'service.not_found']);
});

it.each([
  ['no cursor', 'none'],
  ['the cursor of a list', Buffer.from('["projects","x"]').toString('base64url')],
])('%s is refused', async (_, cursor) => {
  const { status, problem } = await api.read.call('exportOrganization', { query: { cursor } });
  expect(status).toBe(400);
  expect(problem?.fieldErrors).toMatchObject([{ path: 'cursor', code: 'invalid_cursor' }]);
});

it('the cursor of another project, format or extent is refused, and a forged one reads nothing of others', async () => {
  const cursor =
    ofType(recordsOf(await readExport(asOwner({ project: 'second' }))), 'checkpoint').at(-1)?.cursor ?? '';
  for (const call of [
    asCredential({ query: { cursor } }),
    asOwner({ query: { cursor } }),
    asOwner({ project: 'second', query: { cursor, format: 'csv' } }),
    asOwner({ project: 'second', query: { cursor, includeObservationBuckets: 'true' } }),
  ])
    expect((await fetchExport(call)).status).toBe(400);
  const forged = changed(cursor, ([name = '', spans = '']) => [
    ...[name, spans, 'observation', 'default', api.other.projectId],
  ]);
  const records = recordsOf(await readExport(asOwner({ project: 'second', query: { cursor: forged } })));
  expect(records.some((record) => 'monitorId' in record && record.monitorId === foreign.monitorId)).toBe(
    false,
  );
});

/** A cursor with other parts: its export, its moments, and the place. */
function changed(cursor: string, change: (parts: string[]) => string[]): string {
  const parts = change(JSON.parse(Buffer.from(cursor, 'base64url').toString()));
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

it('an export goes on after the clock of the database was set back', async () => {
  const ask = (query: Record<string, string> = {}) => readExport(asOwner({ project: 'second', query }));
  const whole = recordsOf(await ask());
  const cursor = ofType(whole, 'checkpoint').at(-1)?.cursor ?? '';
  // As one that began when the clock showed the day after tomorrow.
  const later = changed(cursor, ([name = '', spans = '']) => {
    const [home, started = '', from] = spans.split('.');
    return [
      name,
      [home, (Number.parseInt(started, 36) + 2 * DAY_MS).toString(36), from].join('.'),
      'observation',
    ];
  });
  const records = recordsOf(await ask({ cursor: later }));
  expect(ofType(records, 'observation')).toEqual(ofType(whole, 'observation'));
  expect(records.at(-1)).toMatchObject({ complete: true });
});

it('hours are refused in a table', async () => {
  const answer = await fetchExport(
    asCredential({ query: { format: 'csv', includeObservationBuckets: 'true' } }),
  );
  expect(answer.status).toBe(400);
  expect((await problemOf(answer)).fieldErrors).toMatchObject([{ path: 'includeObservationBuckets' }]);
});

it('HEAD answers with the headers alone', async () => {
  const answer = await fetchExport(asCredential({ method: 'HEAD' }));
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  expect(await answer.text()).toBe('');
});

it.each([
  ['text/csv', 'text/csv'],
  ['application/x-ndjson', 'application/x-ndjson'],
  ['text/csv;q=0.4, application/x-ndjson;q=0.5', 'application/x-ndjson'],
  ['*/*;q=0.1, text/csv', 'text/csv'],
  ['*/*', 'application/x-ndjson'],
])('without a format, Accept: %s gets %s', async (accept, type) => {
  const answer = await fetchExport(asCredential({ accept, method: 'HEAD' }));
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, expect.stringContaining(type)]);
});

it.each([
  ['application/json', {}],
  ['application/x-ndjson', { format: 'csv' }],
  ['text/csv', { format: 'ndjson' }],
])('Accept: %s with %o is not acceptable', async (accept, query) => {
  const answer = await fetchExport(asCredential({ accept, query }));
  expect([answer.status, (await problemOf(answer)).code]).toEqual([406, 'service.not_acceptable']);
});

it('a table that Accept asks for goes on from its cursor, and has no hours', async () => {
  const accept = 'text/csv';
  const table = await readExport(asOwner({ accept }));
  const cursor = cellsOf(table).at(-1)?.at(-1) ?? '';
  expect(await readExport(asOwner({ accept, query: { cursor } }))).toBe('');
  const answer = await fetchExport(asOwner({ accept, query: { includeObservationBuckets: 'true' } }));
  expect(answer.status).toBe(400);
  expect((await problemOf(answer)).fieldErrors).toMatchObject([{ path: 'includeObservationBuckets' }]);
});

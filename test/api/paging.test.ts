// Every list of the contract is read by keyset: a walk returns each row that lasts once, whatever comes and goes, and a
// deep page costs what the first one costs (docs/contract/calls.md). The types ask for a new list's rows.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operationUrl } from '../../src/contract/operations/operation.ts';
import type { OperationId, OperationOutput } from '../../src/contract/operations/operations.ts';
import { placeOf } from '../../src/store/postgres/secret-box.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  type Clone,
  deleteClones,
  HEX_OF_N,
  hexOf,
  insertClones,
  UUID_OF_N,
} from '../support/cloned-rows.ts';
import {
  CLOSED_URL,
  type FilledProject,
  fillProject,
  OPERATIONS,
  pathNames,
} from '../support/filled-project.ts';
import { pagesReadOf, statementsOf } from '../support/statements.ts';

/** The operations that answer a page. */
type ListId = {
  [Id in OperationId]: OperationOutput<Id> extends { items: unknown[] }
    ? 'nextCursor' extends keyof OperationOutput<Id>
      ? Id
      : never
    : never;
}[OperationId];

/** Enough for a page 10,000 of one row. */
const LASTING = 10_050;
const LARGEST_PAGE = 200;
const COMING = 100;
/** Rows that last have even numbers, those that come and go odd ones. */
const even = (_: unknown, index: number) => 2 * index + 2;

const ROW_NAME = `'row-' || lpad(n::text, 6, '0')`;
const MOMENT = `to_timestamp(n / 1000.0)`;

type Table =
  | 'monitors'
  | 'monitor_changes'
  | 'observations'
  | 'incidents'
  | 'timeline_entries'
  | 'deliveries'
  | 'callback_endpoints'
  | 'endpoint_changes'
  | 'projects'
  | 'credentials';

/** The rows of each list, like those that the product has made. */
function clonesOf({ ids }: FilledProject): Record<Table, Clone[]> {
  const named = { name: ROW_NAME, name_key: ROW_NAME };
  const ofMonitor = `monitor_key = (select monitor_key from monitors where monitor_id = '${ids.monitorId}')`;
  return {
    monitors: [
      {
        table: 'monitor_live',
        like: ofMonitor,
        set: { monitor_key: UUID_OF_N },
      },
      {
        table: 'monitors',
        like: `monitor_id = '${ids.monitorId}'`,
        set: { monitor_key: UUID_OF_N, monitor_id: ROW_NAME, ...named, publish_address: UUID_OF_N },
      },
    ],
    monitor_changes: [{ table: 'monitor_changes', like: ofMonitor, set: { configuration_version: 'n + 1' } }],
    observations: [
      {
        table: 'observations',
        like: `${ofMonitor} and sequence = 1`,
        set: { sequence: 'n + 1', received_at: `t.received_at + n * interval '1 ms'` },
      },
    ],
    incidents: [
      {
        table: 'incidents',
        like: `incident_id = '${ids.incidentId}'`,
        set: { incident_id: `'inc_' || ${HEX_OF_N}`, state: `'recovered'`, opened_at: MOMENT },
      },
    ],
    timeline_entries: [
      {
        table: 'timeline_entries',
        like: `incident_id = '${ids.incidentId}' and type = 'note'`,
        set: { entry_id: UUID_OF_N, at: `t.at + n * interval '1 ms'` },
      },
    ],
    deliveries: [
      {
        table: 'deliveries',
        like: `delivery_id = '${ids.deliveryId}'`,
        set: { delivery_id: `'dlv_' || ${HEX_OF_N}`, created_at: MOMENT, sequence: 'n + 1' },
      },
    ],
    callback_endpoints: [
      {
        table: 'callback_endpoints',
        like: `endpoint_id = '${ids.endpointId}'`,
        set: { endpoint_id: `'cb_' || ${HEX_OF_N}`, alias: ROW_NAME, created_at: MOMENT },
      },
      {
        table: 'signing_secrets',
        like: `endpoint_id = '${ids.endpointId}'`,
        set: { endpoint_id: `'cb_' || ${HEX_OF_N}` },
      },
    ],
    endpoint_changes: [
      {
        table: 'endpoint_changes',
        like: `endpoint_id = '${ids.endpointId}'`,
        set: { change_number: 'n + 1', generation: 'n + 1' },
      },
    ],
    projects: [
      {
        table: 'projects',
        like: `project_id = '${ids.projectId}'`,
        set: { project_id: UUID_OF_N, ...named },
      },
    ],
    credentials: [
      {
        table: 'credentials',
        like: `credential_id = '${ids.credentialId}'`,
        set: { credential_id: HEX_OF_N, created_at: MOMENT },
      },
    ],
  };
}

const TABLE_OF: Record<ListId, Table> = {
  listMonitors: 'monitors',
  getStatusFeed: 'monitors',
  listMonitorChanges: 'monitor_changes',
  listObservations: 'observations',
  listIncidents: 'incidents',
  listMonitorIncidents: 'incidents',
  getIncidentTimeline: 'timeline_entries',
  listDeliveries: 'deliveries',
  listIncidentDeliveries: 'deliveries',
  listCallbacks: 'callback_endpoints',
  listCallbackChanges: 'endpoint_changes',
  listProjects: 'projects',
  listCredentials: 'credentials',
};
const LISTS = Object.entries(TABLE_OF) as [ListId, Table][];

let api: ApiFixture;
let filled: FilledProject;
beforeAll(async () => {
  api = await openApiFixture();
  filled = await fillProject(api);
  const { incidentId } = filled.ids;
  await api.manage.expectSuccess('noteIncident', { params: { incidentId }, body: { note: 'One.' } });
  const numbers = Array.from({ length: LASTING }, even);
  for (const table of new Set(Object.values(TABLE_OF))) await insertRows(table, numbers);
  await api.pool.query('vacuum analyze');
});
afterAll(async () => {
  await api?.close();
});

async function insertRows(table: Table, numbers: readonly number[]): Promise<void> {
  for (const clone of clonesOf(filled)[table]) await insertClones(api.pool, clone, numbers);
  if (table === 'callback_endpoints') await sealUrls(numbers);
}

async function deleteRows(table: Table, numbers: readonly number[]): Promise<void> {
  for (const clone of clonesOf(filled)[table]) await deleteClones(api.pool, clone, numbers);
}

/** A sealed URL opens in its own row alone. */
async function sealUrls(numbers: readonly number[]): Promise<void> {
  const ids = numbers.map((n) => `cb_${hexOf(n)}`);
  const boxes = ids.map((id) => api.secrets.seal(CLOSED_URL, placeOf(api.projectId, id, 'url')));
  await api.pool.query(
    `update callback_endpoints e set url_box = v.box from unnest($1::text[], $2::bytea[]) v (id, box)
     where e.project_id = $3 and e.endpoint_id = v.id`,
    [ids, boxes, api.projectId],
  );
}

interface Page {
  items: unknown[];
  nextCursor?: string;
  hasMore?: boolean;
}

/** By the owner, in the project. */
async function readPage(id: ListId, limit: number, cursor?: string): Promise<Page> {
  const spec = OPERATIONS.find(({ operationId }) => operationId === id);
  if (!spec) throw new Error(`There is no operation ${id}.`);
  const params = Object.fromEntries(pathNames(spec).map((name) => [name, filled.ids[name]]));
  const headers = { authorization: `Bearer ${api.tokens.owner}`, 'service-project': api.projectName };
  const url = `${api.url}${operationUrl(spec, { params, query: { limit, cursor } })}`;
  const answer = await fetch(url, { headers });
  if (!answer.ok) throw new Error(`${id}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Page;
}

/** Reads all pages, and does `between` after each. The items as text. */
async function walk(
  id: ListId,
  between: (read: number, page: Page) => Promise<void> | void,
): Promise<string[]> {
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await readPage(id, LARGEST_PAGE, cursor);
    seen.push(...page.items.map((item) => JSON.stringify(item)));
    if (page.nextCursor === undefined || page.hasMore === false) return seen;
    await between(seen.length, page);
    cursor = page.nextCursor;
  }
}

describe('a list', () => {
  it('every operation that takes a cursor is a list of this test', () => {
    const withCursor = OPERATIONS.filter(({ query }) => query && 'cursor' in query.shape);
    // The types hold those that answer pages.
    const ids = withCursor.filter(({ streams }) => !streams).map(({ operationId }) => operationId);
    expect(ids.sort()).toEqual(Object.keys(TABLE_OF).sort());
  });

  it.each(LISTS)(
    'a walk through %s returns each row that lasts once, while rows come and go',
    async (id, table) => {
      const lasting = await walk(id, () => undefined);
      expect(lasting.length).toBeGreaterThanOrEqual(LASTING);
      expect(new Set(lasting).size).toBe(lasting.length);
      let coming: number[] = [];
      const seen = await walk(id, async (read) => {
        await deleteRows(table, coming);
        // All over the list, at other places each time.
        const step = Math.floor(LASTING / COMING);
        coming = Array.from({ length: COMING }, (_, index) => 2 * (index * step + (read % step)) + 1);
        await insertRows(table, coming);
      });
      await deleteRows(table, coming);
      const times = new Map<string, number>();
      for (const item of seen) times.set(item, (times.get(item) ?? 0) + 1);
      expect(lasting.filter((item) => times.get(item) !== 1)).toEqual([]);
    },
  );

  // What a page of the feed reads: test/store/status-feed-cost.test.ts.
  const measured = LISTS.filter(([id]) => id !== 'getStatusFeed');
  it.each(measured)(
    'page 10,000 of %s reads as many pages of the database as the first one',
    async (id, table) => {
      let deep: string | undefined;
      await walk(id, (read, { nextCursor }) => {
        if (read <= 10_000) deep = nextCursor;
      });
      const pagesAt = async (cursor: string | undefined) => {
        const sent = await statementsOf(() => readPage(id, 1, cursor));
        return await pagesReadOf(api.pool, table, sent);
      };
      const first = await pagesAt(undefined);
      expect(first).toBeLessThan(500);
      // A block of an index more or less: the page may begin or end in another one.
      expect((await pagesAt(deep)) - first).toBeLessThanOrEqual(10);
    },
  );
});

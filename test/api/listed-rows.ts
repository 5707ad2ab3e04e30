// The lists of the contract, with rows like those that the product has made, and walks through them. The types ask for a new
// list's rows.
import { operationUrl } from '../../src/contract/operations/operation.ts';
import type { OperationId, OperationOutput } from '../../src/contract/operations/operations.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import { type Clone, HEX_OF_N, UUID_OF_N } from '../support/cloned-rows.ts';
import { type FilledProject, OPERATIONS, pathNames } from '../support/filled-project.ts';

/** The operations that answer a page. */
export type ListId = {
  [Id in OperationId]: OperationOutput<Id> extends { items: unknown[] }
    ? 'nextCursor' extends keyof OperationOutput<Id>
      ? Id
      : never
    : never;
}[OperationId];

const ROW_NAME = `'row-' || lpad(n::text, 6, '0')`;
const MOMENT = `to_timestamp(n / 1000.0)`;

export type Table =
  | 'monitors'
  | 'monitor_changes'
  | 'drafts'
  | 'observations'
  | 'incidents'
  | 'timeline_entries'
  | 'deliveries'
  | 'callback_endpoints'
  | 'endpoint_changes'
  | 'projects'
  | 'credentials';

/** The rows of each list, like those that the product has made. */
export function clonesOf({ ids }: FilledProject): Record<Table, Clone[]> {
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
    drafts: [
      {
        table: 'drafts',
        like: `draft_id = '${ids.draftId}'`,
        set: { draft_id: `'draft_' || ${HEX_OF_N}`, created_at: MOMENT },
      },
    ],
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

export const TABLE_OF: Record<ListId, Table> = {
  listMonitors: 'monitors',
  getStatusFeed: 'monitors',
  listMonitorChanges: 'monitor_changes',
  listDrafts: 'drafts',
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
export interface Page {
  items: unknown[];
  nextCursor?: string;
  hasMore?: boolean;
}

/** Whose lists are walked: those of the owner, in the project. */
export interface Walker {
  api: Pick<ApiFixture, 'url' | 'tokens' | 'projectName'>;
  filled: FilledProject;
  /** Rows of a page. */
  limit: number;
}

export async function readPage({ api, filled, limit }: Walker, id: ListId, cursor?: string): Promise<Page> {
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
export async function walk(
  walker: Walker,
  id: ListId,
  between: (read: number, page: Page) => Promise<void> | void,
): Promise<string[]> {
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await readPage(walker, id, cursor);
    seen.push(...page.items.map((item) => JSON.stringify(item)));
    if (page.nextCursor === undefined || page.hasMore === false) return seen;
    await between(seen.length, page);
    cursor = page.nextCursor;
  }
}

/** The texts of `lasting` that are not in `seen` exactly once. */
export function lostOrRepeated(lasting: readonly string[], seen: readonly string[]): string[] {
  const times = new Map<string, number>();
  for (const item of seen) times.set(item, (times.get(item) ?? 0) + 1);
  return lasting.filter((item) => times.get(item) !== 1);
}

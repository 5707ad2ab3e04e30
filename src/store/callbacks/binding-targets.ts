// Finds the endpoints that bindings name now, in one query for any number of monitors.
// service/callbacks/callback-targets.ts decides whether they can be used.

import type { BindingKind, EndpointKind, EndpointLifecycle } from '../../domain/callback.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { ENDPOINT } from './callback-endpoints.ts';

/** A binding that names an endpoint: the organization's default, an alias, or the id of an inline endpoint. */
export interface BindingQuery {
  projectId: string;
  kind: Exclude<BindingKind, 'disabled'>;
  alias?: string;
  inlineEndpointId?: string;
}

export interface FoundEndpoint {
  /** The endpoint's project: the organization's default may belong to another project than the monitor. */
  projectId: string;
  endpointId: string;
  alias?: string;
  kind: EndpointKind;
  urlBox?: Buffer;
  lifecycle: EndpointLifecycle;
  isRemoved: boolean;
  /** The database's clock, after what is read here was committed. */
  readMs: number;
}

const TARGET: Columns<FoundEndpoint> = {
  projectId: ENDPOINT.projectId,
  endpointId: ENDPOINT.endpointId,
  alias: ENDPOINT.alias,
  kind: ENDPOINT.kind,
  urlBox: ENDPOINT.urlBox,
  lifecycle: ENDPOINT.lifecycle,
  isRemoved: column.computed('is_removed', 'e.removed_at is not null'),
  readMs: column.computed('read_ms', NOW_MS),
};
const toFoundEndpoint = rowReader(TARGET);

/**
 * Finds the endpoint of each query, in the order of the queries; undefined where none has ever existed.
 * Among endpoints with the same alias, the one that has it now precedes removed ones (index callback_endpoints_alias).
 */
export async function findBindingTargets(
  db: Queryable,
  queries: readonly BindingQuery[],
): Promise<(FoundEndpoint | undefined)[]> {
  if (queries.length === 0) return [];
  const { rows } = await db.query<{ place: number }>({
    name: 'find-binding-targets',
    text: `select k.place::integer, ${sql.select(TARGET, 'e')}
      from unnest($1::uuid[], $2::text[], $3::text[], $4::text[])
        with ordinality as k (project_id, kind, alias, inline_endpoint_id, place)
      join projects p on p.project_id = k.project_id
      join organizations o on o.organization_id = p.organization_id
      join lateral (
        (select d.* from callback_endpoints d
          where k.kind <> 'named'
            and d.project_id = case k.kind when 'inline' then k.project_id else o.default_project_id end
            and d.endpoint_id = case k.kind when 'inline' then k.inline_endpoint_id else o.default_endpoint_id end)
        union all
        (select n.* from callback_endpoints n
          where k.kind = 'named' and n.project_id = k.project_id and n.alias = k.alias and n.removed_at is null)
        union all
        (select g.* from callback_endpoints g
          where k.kind = 'named' and g.project_id = k.project_id and g.alias = k.alias
            and g.removed_at is not null
          limit 1)
        limit 1
      ) e on true`,
    values: [
      queries.map((query) => query.projectId),
      queries.map((query) => query.kind),
      queries.map((query) => query.alias),
      queries.map((query) => query.inlineEndpointId),
    ],
  });
  const found = new Map(rows.map((row) => [row.place, toFoundEndpoint(row)]));
  return queries.map((_, index) => found.get(index + 1));
}

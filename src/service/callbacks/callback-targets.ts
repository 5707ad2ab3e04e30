// Where the alerts of monitors go now, or why they go nowhere (docs/contract/callbacks.md). For writers of deliveries
// and reads of bindings.
import type { EndpointKind, EndpointLifecycle, UnavailableReason } from '../../domain/callback.ts';
import {
  type BindingQuery,
  type FoundEndpoint,
  findBindingTargets,
} from '../../store/callbacks/binding-targets.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { StoredBinding } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

export interface BindingItem extends MonitorRef {
  binding: StoredBinding;
}

export interface Target {
  endpointId: string;
  /** Of the endpoint: the organization's default may be in another project than the monitor. */
  projectId: string;
  alias?: string;
  kind: EndpointKind;
  lifecycle: EndpointLifecycle;
  /** Sealed. */
  urlBox?: Buffer;
  /** The database's clock, after what is said here was committed. */
  readMs: number;
}

export type TargetResult = { target: Target } | { unavailableReason: UnavailableReason };

/**
 * Resolves the bindings of any number of monitors in one query, keyed by monitor key. A `disabled` binding has no
 * entry.
 */
export async function resolveTargets(
  db: Queryable,
  items: readonly BindingItem[],
): Promise<Map<string, TargetResult>> {
  // Monitors with one binding share its row: thousands that fail at once mostly have the same binding.
  const queries = new Map<string, BindingQuery>();
  const ids = items.map(({ projectId, binding }) => bindingId(projectId, binding));
  for (const [index, { projectId, binding }] of items.entries()) {
    const id = ids[index] ?? '';
    const { kind } = binding;
    if (kind !== 'disabled' && !queries.has(id)) queries.set(id, { projectId, ...binding, kind });
  }
  const found = await findBindingTargets(db, [...queries.values()]);
  const results = new Map<string, TargetResult>();
  for (const [index, [id, { kind }]] of [...queries].entries()) results.set(id, judge(kind, found[index]));

  const byMonitor = new Map<string, TargetResult>();
  for (const [index, { monitorKey }] of items.entries()) {
    const result = results.get(ids[index] ?? '');
    if (result) byMonitor.set(monitorKey, result);
  }
  return byMonitor;
}

function bindingId(projectId: string, binding: StoredBinding): string {
  return `${projectId} ${binding.kind} ${binding.alias ?? ''} ${binding.inlineEndpointId ?? ''}`;
}

function judge(kind: BindingQuery['kind'], found: FoundEndpoint | undefined): TargetResult {
  if (!found) return { unavailableReason: MISSING[kind] };
  const { isRemoved, ...target } = found;
  if (isRemoved) return { unavailableReason: 'endpoint_removed' };
  if (target.lifecycle === 'disabled') return { unavailableReason: 'endpoint_disabled' };
  return { target };
}

const MISSING = {
  organization_default: 'no_organization_default',
  named: 'alias_not_found',
  inline: 'endpoint_removed',
} as const;

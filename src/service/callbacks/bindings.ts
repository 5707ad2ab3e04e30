// Callback bindings of monitors: where alerts go (docs/contract/callbacks.md). Endpoints are in callbacks.ts, those of
// inline bindings in inline-endpoints.ts.
import type { UnavailableReason } from '../../domain/callback.ts';
import type { MonitorRecord, StoredBinding } from '../../store/monitors/monitor-record.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import type { AtTheEnd } from '../calls/write.ts';
import { findMonitor, lockMonitor, saveMonitor, type VersionedName } from '../monitors/monitor-access.ts';
import type { BindingInput } from '../monitors/monitors.ts';
import { resolveTargets, type Target } from './callback-targets.ts';
import { countEndpoint, uncountEndpoint } from './endpoint-count.ts';
import type { IssuedSecret } from './endpoint-seal.ts';
import {
  createInlineEndpoint,
  removeInlineEndpoint,
  rotateInlineSecret,
  updateInlineUrl,
} from './inline-endpoints.ts';

export interface BindingView {
  monitor: MonitorRecord;
  /** Where alerts go now. A disabled binding has neither a target nor a reason. */
  target?: Target;
  unavailableReason?: UnavailableReason;
  /** Set when one was issued for an inline binding: shown once. */
  secret?: IssuedSecret;
}

/** Throws `not_found` and `conflict`. */
export async function readBinding(db: Queryable, name: MonitorName): Promise<BindingView> {
  return await withTarget(db, await findMonitor(db, name));
}

export interface SetBinding extends BindingView {
  /** What was done; nothing where the binding is as it was. */
  done: readonly ('set' | 'rotate_secret')[];
  /** The inline endpoint that this made, changed or removed. */
  endpointId?: string;
}

export interface BindingChange {
  name: VersionedName;
  /** An inline URL was checked before the transaction (checkBinding). */
  binding: BindingInput;
  rotateSigningSecret: boolean;
  atTheEnd: AtTheEnd;
}

/**
 * Sets the binding; the same binding keeps the version. An inline binding that stays inline keeps its endpoint and its
 * secret, also with another URL (docs/contract/callbacks.md).
 * Throws `not_found`, `conflict`, `precondition_failed` and `plan_limit_reached`.
 */
export async function setBinding(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  change: BindingChange,
): Promise<SetBinding> {
  const { record, nowMs } = await lockMonitor(tx, context, change.name);
  const replaced = await replace(tx, context, { record, change }, nowMs);
  if (!replaced) return { ...(await withTarget(tx, record)), done: [] };
  const { binding, inlineUrlBox, secret, done } = replaced;
  const endpointId = binding.inlineEndpointId ?? record.binding.inlineEndpointId;
  const saved = await saveMonitor(
    tx,
    caller,
    {
      record: { ...record, binding, inlineUrlBox },
      live: record.live,
      change: { kind: 'configuration' },
    },
    nowMs,
  );
  change.atTheEnd((last) => countInline(last, context, record, saved));
  return { ...(await withTarget(tx, saved)), secret, done, endpointId };
}

/** A binding that became inline has made an endpoint, and one that is no longer has removed it. */
async function countInline(
  tx: Queryable,
  context: ServiceContext,
  before: MonitorRecord,
  after: MonitorRecord,
): Promise<void> {
  const [had, has] = [before, after].map(({ binding }) => binding.inlineEndpointId !== undefined);
  if (has && !had) await countEndpoint(tx, context, after.organizationId, 'binding');
  if (had && !has) await uncountEndpoint(tx, after.organizationId);
}

interface Replaced {
  binding: StoredBinding;
  inlineUrlBox?: Buffer;
  secret?: IssuedSecret;
  done: SetBinding['done'];
}

/** Undefined when nothing changes. */
async function replace(
  tx: Queryable,
  context: ServiceContext,
  { record, change }: { record: MonitorRecord; change: BindingChange },
  nowMs: number,
): Promise<Replaced | undefined> {
  const { binding, rotateSigningSecret } = change;
  const { binding: current, projectId } = record;
  const endpoint =
    current.inlineEndpointId === undefined ? undefined : { projectId, endpointId: current.inlineEndpointId };
  if (binding.kind === 'inline') {
    if (!endpoint) {
      const { monitorKey } = record;
      const made = await createInlineEndpoint(
        tx,
        context,
        { projectId, monitorKey, url: binding.url },
        nowMs,
      );
      const { endpointId, urlBox, secret } = made;
      const inline = { kind: 'inline', inlineEndpointId: endpointId } as const;
      return { binding: inline, inlineUrlBox: urlBox, secret, done: ['set'] };
    }
    const urlBox = await updateInlineUrl(tx, context, { ...endpoint, url: binding.url }, nowMs);
    const secret = rotateSigningSecret ? await rotateInlineSecret(tx, context, endpoint, nowMs) : undefined;
    const done = [...(urlBox ? ['set' as const] : []), ...(secret ? ['rotate_secret' as const] : [])];
    if (done.length === 0) return undefined;
    return { binding: current, inlineUrlBox: urlBox ?? record.inlineUrlBox, secret, done };
  }
  if (endpoint) await removeInlineEndpoint(tx, endpoint, { reason: 'endpoint_removed' }, nowMs);
  const alias = binding.kind === 'named' ? binding.alias : undefined;
  const isSame = current.kind === binding.kind && current.alias === alias;
  return isSame ? undefined : { binding: { kind: binding.kind, alias }, done: ['set'] };
}

async function withTarget(db: Queryable, monitor: MonitorRecord): Promise<BindingView> {
  const result = (await resolveTargets(db, [monitor])).get(monitor.monitorKey);
  return { monitor, ...result };
}

// Callback bindings of monitors: where alerts go (docs/contract/callbacks.md). Endpoints themselves are in callbacks.ts, those of
// inline bindings in inline-endpoints.ts.
import type { UnavailableReason } from '../../domain/callback.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { StoredBinding } from '../../store/monitors/watched-monitor.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { findMonitor } from '../monitors/find-monitor.ts';
import { lockMonitor, saveMonitor, type VersionedName } from '../monitors/monitor-write.ts';
import { type BindingInput, type MonitorView, viewOf } from '../monitors/monitors.ts';
import { describeTarget, resolveTargets } from './callback-targets.ts';
import type { SigningSecretRecord } from './endpoint-seal.ts';
import {
  createInlineEndpoint,
  removeInlineEndpoint,
  rotateInlineSecret,
  updateInlineUrl,
} from './inline-endpoints.ts';

export interface BindingView {
  monitor: MonitorView;
  /** Where alerts go now. Neither this nor a reason for a disabled binding. */
  target?: ReturnType<typeof describeTarget>;
  unavailableReason?: UnavailableReason;
  /** Of an inline binding, when one was issued: shown once. */
  signingSecret?: SigningSecretRecord;
}

/** Throws `not_found` and `conflict`. */
export async function readBinding(context: ServiceContext, name: MonitorName): Promise<BindingView> {
  const record = await findMonitor(context.pool, name);
  return await withTarget(context.pool, context, viewOf(context, record));
}

export interface BindingChange {
  name: VersionedName;
  /** An inline URL was checked before the transaction (checkBinding). */
  binding: BindingInput;
  rotateSigningSecret: boolean;
}

/**
 * Sets the binding; one that stays the same keeps the version. An inline binding that stays inline keeps its endpoint
 * and its secret, also under another URL (docs/contract/callbacks.md).
 * Throws `not_found`, `conflict` and `precondition_failed`.
 */
export async function setBinding(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  change: BindingChange,
): Promise<BindingView> {
  const { record, nowMs } = await lockMonitor(tx, context, change.name);
  const replaced = await replace(tx, context, { ref: record, current: record.binding, change }, nowMs);
  const inlineUrl = change.binding.kind === 'inline' ? change.binding.url : undefined;
  if (!replaced) return await withTarget(tx, context, { ...record, inlineUrl });
  const saved = await saveMonitor(
    tx,
    caller,
    {
      record: { ...record, binding: replaced.binding },
      live: record.live,
      change: { kind: 'configuration' },
    },
    nowMs,
  );
  const view = await withTarget(tx, context, { ...saved, inlineUrl });
  return { ...view, signingSecret: replaced.signingSecret };
}

interface Replaced {
  binding: StoredBinding;
  signingSecret?: SigningSecretRecord;
}

/** Undefined when nothing changes. */
async function replace(
  tx: Queryable,
  context: ServiceContext,
  { ref, current, change }: { ref: MonitorRef; current: StoredBinding; change: BindingChange },
  nowMs: number,
): Promise<Replaced | undefined> {
  const { binding, rotateSigningSecret } = change;
  const endpoint =
    current.inlineEndpointId === undefined
      ? undefined
      : { projectId: ref.projectId, endpointId: current.inlineEndpointId };
  if (binding.kind === 'inline') {
    if (!endpoint) {
      const made = await createInlineEndpoint(tx, context, { ...ref, url: binding.url }, nowMs);
      const stored: StoredBinding = { kind: 'inline', inlineEndpointId: made.endpointId };
      return { binding: stored, signingSecret: made.signingSecret };
    }
    const moved = await updateInlineUrl(tx, context, { ...endpoint, url: binding.url }, nowMs);
    const signingSecret = rotateSigningSecret
      ? await rotateInlineSecret(tx, context, endpoint, nowMs)
      : undefined;
    return moved || signingSecret ? { binding: current, signingSecret } : undefined;
  }
  if (endpoint) await removeInlineEndpoint(tx, endpoint, { reason: 'endpoint_removed' }, nowMs);
  const alias = binding.kind === 'named' ? binding.alias : undefined;
  return current.kind === binding.kind && current.alias === alias
    ? undefined
    : { binding: { kind: binding.kind, alias } };
}

async function withTarget(
  db: Queryable,
  context: Pick<ServiceContext, 'secrets'>,
  monitor: MonitorView,
): Promise<BindingView> {
  const result = (await resolveTargets(db, [monitor])).get(monitor.monitorKey);
  if (!result) return { monitor };
  if ('unavailableReason' in result) return { monitor, unavailableReason: result.unavailableReason };
  return { monitor, target: describeTarget(context.secrets, result.target) };
}

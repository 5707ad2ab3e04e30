// Brings the API to what a Monitor wants: finds or makes the monitor, changes what differs, makes the Secret right.
// Each step may have been done before; a pass that ends anywhere is gone on with by the next one.
import type { Monitor } from '../../../contract/resources/monitor.ts';
import type { ObjectMemory } from '../../known/object-memory.ts';
import { type OperatorContext, recordEvent } from '../../operator-context.ts';
import { announceFields } from '../../pass/announce-fields.ts';
import { Blocked } from '../../pass/blocked.ts';
import { deleteFormerSecret } from '../../pass/owned-secret.ts';
import type { ObjectPass } from '../../pass/reconcile-object.ts';
import { recordDifferences, recordDrift } from '../../pass/record-differences.ts';
import { formatSpecHash, parseSpecHash } from '../../resources/content-hash.ts';
import { ownId } from '../../resources/identity.ts';
import { leaveFormerMonitor, leaveMonitor } from './monitor-deletion.ts';
import { MonitorHandle } from './monitor-handle.ts';
import { MONITORS, type MonitorObject } from './monitor-object.ts';
import { type MonitorPlan, planMonitor } from './monitor-plan.ts';
import { ensureMonitorSecret, visibleHash } from './monitor-secret.ts';
import { type MonitorStatusFacts, monitorStatusOf } from './monitor-status.ts';
import { ownedMonitorFields } from './owned-fields.ts';
import { createMonitorBodyOf, type WantedMonitor } from './wanted-monitor.ts';

/** What a pass has found out so far: for the status, also where the pass ends in a fault. */
export interface MonitorPass extends ObjectPass<MonitorObject> {
  fields: MonitorStatusFacts['fields'];
  record?: Monitor;
  /** When the monitor was asked for, ms of the process's clock. */
  readAtMs?: number;
}

/** Throws Blocked, ApiProblem, KubeError. What is known until then is in `pass`. */
export async function syncMonitor(
  context: OperatorContext,
  pass: MonitorPass,
  wanted: WantedMonitor,
): Promise<void> {
  await leaveFormer(context, pass, wanted);
  const { projectId, monitorId } = wanted;
  const ownedFields = ownedMonitorFields(wanted, Date.now());
  const announced = { resource: MONITORS, projectId, ownedFields, statusOf: monitorStatusOf };
  await announceFields(context, pass, announced);
  const uid = pass.object.metadata.uid ?? '';
  const handle = new MonitorHandle(context.api, { projectId, monitorId, uid, signal: pass.signal });
  pass.readAtMs = performance.now();
  const found = await handle.read(wanted.spec.jurisdiction);
  if (found === undefined) await create(context, pass, { wanted, handle });
  pass.record = handle.record;
  pass.fields = { ...pass.fields, monitorId, projectId };
  requireJurisdiction(wanted, handle.record);

  const isTakenOver = found !== undefined && pass.object.status?.monitorId !== monitorId;
  const isChanged = parseSpecHash(pass.object.status?.specHash).wanted !== wanted.hash;
  const isRotatedElsewhere = changedInvisibly(pass.memory, handle);
  const nowMs = Date.now();
  const owned = pass.object.status?.ownedFields;
  const plan = planMonitor(wanted, { record: handle.record, owned, isTakenOver, isChanged, nowMs });
  for (const step of plan.steps) {
    await handle.run(step);
    pass.record = handle.record;
  }
  const secret = await ensureMonitorSecret(context, {
    object: pass.object,
    wanted,
    handle,
    memory: pass.memory,
    isRotatedElsewhere,
  });
  pass.record = handle.record;
  const names = { former: pass.object.status?.publishSecretRef?.name, current: wanted.secretName };
  await deleteFormerSecret(context.kube, { resource: MONITORS, object: pass.object }, names);
  recordChanges(context, pass.object, { wanted, plan, isFound: found !== undefined, isTakenOver, isChanged });
  const { configurationVersion } = handle.record;
  pass.memory.seen = { configurationVersion, hash: visibleHash(handle) };
  pass.fields = {
    ...pass.fields,
    ownedFields: ownedMonitorFields(wanted, nowMs),
    specHash: formatSpecHash({ wanted: wanted.hash, secret }),
    publishSecretRef: { name: wanted.secretName },
  };
}

/** A namespace that was given to another project, or another id: what stood for the object until now ends. */
async function leaveFormer(
  context: OperatorContext,
  pass: MonitorPass,
  { projectId, monitorId }: WantedMonitor,
): Promise<void> {
  const { object, signal } = pass;
  const { status } = object;
  if (status?.projectId === undefined) return;
  if (status.projectId === projectId) {
    if (status.monitorId === undefined || status.monitorId === monitorId) return;
    await leaveFormerMonitor(context, object, { monitorId, signal });
  } else if (status.monitorId !== undefined) {
    const former = { projectId: status.projectId, monitorId: status.monitorId, signal };
    await leaveMonitor(context, object, former);
  }
  // Nothing else of the status holds for the new one.
  pass.object = { ...object, status: { publishSecretRef: status.publishSecretRef } };
}

async function create(
  context: OperatorContext,
  { object, fields }: MonitorPass,
  { wanted, handle }: { wanted: WantedMonitor; handle: MonitorHandle },
): Promise<void> {
  const wasThere =
    object.status?.monitorId === wanted.monitorId && object.status.projectId === wanted.projectId;
  if (wasThere && wanted.spec.lifecycle === 'archived') {
    fields.monitorId = wanted.monitorId;
    const message =
      'The archived monitor was deleted: set lifecycle to active to make it again, or delete this object.';
    throw new Blocked('Refused', message, 600_000);
  }
  await handle.create(createMonitorBodyOf(wanted));
  if (wasThere)
    recordDrift(context, object, `The monitor ${wanted.monitorId} was deleted elsewhere and is made again.`);
}

function requireJurisdiction({ spec }: WantedMonitor, record: Monitor): void {
  if (spec.jurisdiction === undefined || spec.jurisdiction === record.jurisdiction) return;
  const message = `The monitor ${record.monitorId} is in the jurisdiction ${record.jurisdiction}, which cannot change.`;
  throw new Blocked('Refused', message, 600_000);
}

/** One version further, and nothing that can be seen is another: a signing secret was rotated. */
function changedInvisibly({ seen }: ObjectMemory, handle: MonitorHandle): boolean {
  return (
    seen?.configurationVersion === handle.record.configurationVersion - 1 && seen.hash === visibleHash(handle)
  );
}

interface Outcome {
  wanted: WantedMonitor;
  plan: MonitorPlan;
  isFound: boolean;
  isTakenOver: boolean;
  isChanged: boolean;
}

function recordChanges(context: OperatorContext, object: MonitorObject, outcome: Outcome): void {
  const { wanted, plan, isFound, isTakenOver, isChanged } = outcome;
  const { monitorId } = wanted;
  const isOwn = monitorId === ownId('mon', object);
  const wasThere = object.status?.monitorId === monitorId;
  // One that was found although the status does not know it: made by a pass whose end was lost.
  if (!wasThere && (!isFound || isOwn))
    recordEvent(context, object, 'Created', `Made the monitor ${monitorId}.`);
  else if (isTakenOver) recordEvent(context, object, 'Adopted', `Took over the monitor ${monitorId}.`);
  if (plan.steps.some((step) => step.call === 'lifecycle' && step.body.action === 'archive')) {
    recordEvent(context, object, 'Archived', `Archived the monitor ${monitorId}.`);
  }
  if (wasThere && isFound) recordDifferences(context, object, { fields: plan.fields, isChanged });
}

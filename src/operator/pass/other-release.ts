// What this release does with an object that another one manages (docs/contract/kubernetes.md, "Several releases"): nothing,
// but to say so, and to take the finalizer off where a person forces the deletion.
import { FINALIZER, MANAGED_BY } from '../../contract/crd/custom-resources.ts';
import { jitterMs } from '../../kube/backoff.ts';
import type { ReconcileResult } from '../../kube/controller.ts';
import { removeFinalizer } from '../../kube/finalizers.ts';
import { hasFinalizer, type KubeResource } from '../../kube/kube-object.ts';
import type { ObjectMemory } from '../known/object-cache.ts';
import type { OperatorContext } from '../operator-context.ts';
import { ANNOTATION } from '../resources/names.ts';
import type { CustomObject } from './object.ts';
import type { ObjectEvents } from './object-events.ts';

/** How often an Event repeats that another release manages an object. */
const REPEAT_MS = 1_800_000;

/** Throws KubeError. */
export async function leaveToOther<O extends CustomObject>(
  { kube, settings }: OperatorContext,
  { resource, events }: { resource: KubeResource<O>; events: ObjectEvents },
  { object, memory }: { object: O; memory: ObjectMemory<O> },
  other: string,
): Promise<ReconcileResult> {
  const name = other.slice(0, 320);
  const nowMs = performance.now();
  const note = describe(object, settings.release, name);
  // Each status that the other one writes leads to a pass.
  if (memory.otherRelease?.note !== note || nowMs - memory.otherRelease.toldAtMs >= REPEAT_MS / 2) {
    memory.otherRelease = { note, toldAtMs: nowMs };
    events.record(object, 'Conflict', note);
  }
  if (!isForced(object)) return { requeueAfterMs: jitterMs(REPEAT_MS) };
  // If the other release is there, it ends the monitor or endpoint before it lets the object go.
  memory.forcedSinceMs ??= nowMs;
  const waitMs = memory.forcedSinceMs + settings.resyncMs - nowMs;
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  await removeFinalizer(kube, resource, object, FINALIZER);
  const released = `Let this ${object.kind} go, because its annotation ${ANNOTATION.forceDelete} is set. What the release ${name} has for it at its API stays as it is.`;
  events.record(object, 'Released', released);
  return { requeueAfterMs: jitterMs(REPEAT_MS) };
}

/** What users read on the object. */
function describe({ kind, metadata }: CustomObject, release: string, other: string): string {
  const says = `This ${kind} is managed by the release ${other}: the release ${release} leaves it alone. If ${other} is gone or was renamed, remove the annotation ${MANAGED_BY}`;
  if (metadata.deletionTimestamp === undefined) return `${says}.`;
  return `${says}, or set the annotation ${ANNOTATION.forceDelete}: "true": then the object goes without it.`;
}

function isForced(object: CustomObject): boolean {
  const { deletionTimestamp, annotations } = object.metadata;
  const isForcing = annotations?.[ANNOTATION.forceDelete] === 'true';
  return deletionTimestamp !== undefined && isForcing && hasFinalizer(object, FINALIZER);
}

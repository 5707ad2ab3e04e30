// One look at one object, the same for every kind: what is cached or was written last, the pass over it, and what
// becomes of a fault. What a pass does is the kind's own.
import type { KubeCondition } from '../../kube/conditions.ts';
import type { Reconcile, ReconcileResult } from '../../kube/controller.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { ObjectStore } from '../../kube/object-store.ts';
import { newestOf, type ObjectMemories, type ObjectMemory } from '../known/object-memory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { type FaultDisplay, settleFault } from './settle-fault.ts';

/** What every status has. */
export interface ReconciledObject extends KubeObject {
  status?: { conditions?: KubeCondition[]; ownedFields?: string[]; projectId?: string };
}

/** What every pass knows. A kind adds what it finds out: for the status, also where the pass ends in a fault. */
export interface ObjectPass<T extends ReconciledObject = ReconciledObject> {
  /** As it was last read or written, by this pass too. */
  object: T;
  memory: ObjectMemory<T>;
  signal: AbortSignal;
  /** What the API is asked for, once that is known: what a refusal is about. */
  desiredHash?: string;
}

/** What is a kind's own. All of it throws Blocked, ApiProblem, KubeError. */
export interface ObjectKind<T extends ReconciledObject, P extends ObjectPass<T>> {
  readonly store: ObjectStore<T>;
  readonly memories: ObjectMemories<T>;
  begin(pass: ObjectPass<T>): P;
  /** Makes everything as the spec says, and writes the status. */
  run(pass: P): Promise<ReconcileResult>;
  /** The object is being deleted: lets go of what stands for it, then of the object. */
  finalize(pass: P): Promise<void>;
  /** How a fault is shown; asked when the pass has ended in one. */
  display(pass: P): FaultDisplay;
}

export function reconcilerOf<T extends ReconciledObject, P extends ObjectPass<T>>(
  context: OperatorContext,
  kind: ObjectKind<T, P>,
): Reconcile {
  return async (key, { signal, failures }) => {
    const cached = kind.store.get(key);
    if (cached === undefined) return undefined;
    const memory = kind.memories.of(cached.metadata.uid ?? '');
    const pass = kind.begin({ object: newestOf(cached, memory), memory, signal });
    try {
      if (pass.object.metadata.deletionTimestamp === undefined) return await kind.run(pass);
      await kind.finalize(pass);
      return undefined;
    } catch (error) {
      const { object, desiredHash } = pass;
      const faulted = { ...kind.display(pass), object, memory, desiredHash };
      return await settleFault(context, faulted, { error, failures });
    } finally {
      memory.written = pass.object;
    }
  };
}

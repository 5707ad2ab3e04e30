// What the operator remembers of each object between two looks at it. Losing it costs calls, never a wrong result.
import type { KubeObject } from '../../kube/kube-object.ts';
import type { Fault } from '../kinds/monitor/monitor-conditions.ts';

export interface ObjectMemory<T extends KubeObject = KubeObject> {
  /** As our last write left it: the cache may not have it yet. */
  written?: T;
  /** The API refused this: not asked again before `untilMs` (ms of the process's clock; Infinity: for good). */
  refusal?: { desiredHash: string; code: string; fault: Fault; untilMs: number };
  /** When the Secret was last seen to be right, ms of the process's clock. */
  secretCheckedAtMs?: number;
  /** When a status was last written for a beat alone. */
  beatWrittenAtMs?: number;
  /** The configuration as it was last read, and its version. */
  seen?: { configurationVersion: number; hash: string };
}

/** Why the API would refuse it again; undefined where it is worth a try. `nowMs` is the process's clock. */
export function refusedFault(
  { refusal }: ObjectMemory,
  desiredHash: string,
  nowMs: number,
): Fault | undefined {
  return refusal?.desiredHash === desiredHash && nowMs < refusal.untilMs ? refusal.fault : undefined;
}

export class ObjectMemories<T extends KubeObject = KubeObject> {
  readonly #memories = new Map<string, ObjectMemory<T>>();

  /** The memory of an object, by its UID; made when there is none. */
  of(uid: string): ObjectMemory<T> {
    const known = this.#memories.get(uid);
    if (known) return known;
    const fresh: ObjectMemory<T> = {};
    this.#memories.set(uid, fresh);
    return fresh;
  }

  forget(uid: string): void {
    this.#memories.delete(uid);
  }

  get refused(): number {
    return [...this.#memories.values()].filter(({ refusal }) => refusal !== undefined).length;
  }

  /** Forgets refusals of this code, when their cause may be over: a right that came back, an alias that became free. */
  forgetRefusals(code: string): void {
    for (const memory of this.#memories.values())
      if (memory.refusal?.code === code) memory.refusal = undefined;
  }
}

/**
 * The object to begin a pass with: what the cache has, or what our last write left, while the cache is behind it. A
 * pass over a status that is older than our own last one would take our Secret for an edited one.
 */
export function newestOf<T extends KubeObject>(cached: T, memory: ObjectMemory<T>): T {
  const { written } = memory;
  if (written !== undefined && isNewer(written, cached)) return written;
  memory.written = undefined;
  return cached;
}

function isNewer(a: KubeObject, b: KubeObject): boolean {
  if (a.metadata.uid !== b.metadata.uid) return false;
  const [versionA, versionB] = [a.metadata.resourceVersion ?? '', b.metadata.resourceVersion ?? ''];
  if (!/^\d+$/.test(versionA) || !/^\d+$/.test(versionB)) return false;
  return BigInt(versionA) > BigInt(versionB);
}

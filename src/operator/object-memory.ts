// What the operator remembers of each object between two looks at it. Losing it costs calls, never a wrong result.
import type { Fault } from './translate/monitor-conditions.ts';

export interface ObjectMemory {
  /** The API refused this wish for good: not told again until the wish is another one. */
  refusal?: { wish: string; code: string; fault: Fault };
  /** When the Secret was last seen to be right, ms of the process's clock. */
  secretCheckedAtMs?: number;
  /** When a status was last written for a beat alone. */
  beatWrittenAtMs?: number;
  /** The configuration as it was last read, and its version. */
  seen?: { configurationVersion: number; hash: string };
}

export class ObjectMemories {
  readonly #memories = new Map<string, ObjectMemory>();

  /** The memory of an object, by its UID; made when there is none. */
  of(uid: string): ObjectMemory {
    const known = this.#memories.get(uid);
    if (known) return known;
    const fresh: ObjectMemory = {};
    this.#memories.set(uid, fresh);
    return fresh;
  }

  forget(uid: string): void {
    this.#memories.delete(uid);
  }

  get refused(): number {
    return [...this.#memories.values()].filter(({ refusal }) => refusal !== undefined).length;
  }

  /** Forgets refusals that were about the operator's own rights, when those may have come back. */
  forgetRefusals(code: string): void {
    for (const memory of this.#memories.values())
      if (memory.refusal?.code === code) memory.refusal = undefined;
  }
}

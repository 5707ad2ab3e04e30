// The objects of one kind: cached, indexed, and with what the operator remembers of each between two passes. A lost memory
// costs calls, or a wait for people where statuses were forged, and never leads to a wrong result.
import type { KubeObject } from '../../kube/kube-object.ts';
import { ObjectStore, type StoreChange, type StoreIndex } from '../../kube/object-store.ts';
import { type Held, idOf } from '../pass/identity.ts';
import type { CustomObject, Fault, Identity, KnownDestination } from '../pass/object.ts';
import { otherReleaseOf } from '../pass/release.ts';

export interface ObjectMemory<O extends KubeObject = KubeObject> {
  /** The object after the operator's last write: the cache may be behind it. */
  written?: O;
  /**
   * The API refused this desired state. It is not called again before `untilMs` (process's clock; Infinity: never).
   * Without a hash: it refused a call before the desired state was known, and each pass makes that call again.
   */
  refusal?: { desiredHash: string | undefined; code: string; fault: Fault; untilMs: number };
  /** The words of the last Event about another release that manages the object, and when, ms of the process's clock. */
  otherRelease?: { note: string; toldAtMs: number };
  /** Since when the object of another release is to go by force, ms of the process's clock. */
  forcedSinceMs?: number;
  held?: Held;
  /** When the Secret was last found intact, ms of the process's clock. */
  secretCheckedAtMs?: number;
  /** When a status, and with it the last beat, was last written, ms of the process's clock. */
  beatWrittenAtMs?: number;
  /** The pass that may write a beat comes then, ms of the process's clock. */
  beatWaitsUntilMs?: number | undefined;
  /** Since when the monitor is late without the status saying so, ms of the process's clock. */
  lateSinceMs?: number;
  /** The alias of the endpoint, as last read. */
  alias?: string;
  /** The endpoint was the organization's default, as last read. */
  isDefault?: boolean;
  destination?: KnownDestination;
  /** The words of the last Event about the maintenance of its namespace. */
  maintenanceFault?: string | undefined;
  /** What the API has said of the dependencies, and until when it is not asked again, ms of the process's clock. */
  refusedDependencies?: { message: string; untilMs: number } | undefined;
  /** When a Rule that the API has refused may be tried again, ms of the process's clock. */
  rulesRetryAtMs?: number | undefined;
  /** A pass has found out whether the installation sends to the address. */
  isDestinationJudged?: boolean;
  /** The version of the configuration and a hash of its visible part, as last read. */
  seen?: { configurationVersion: number; hash: string };
}

/** Why the API would refuse the desired state again; undefined if it may accept it. `nowMs` is the process's clock. */
export function refusedFault(
  { refusal }: ObjectMemory,
  desiredHash: string,
  nowMs: number,
): Fault | undefined {
  return refusal?.desiredHash === desiredHash && nowMs < refusal.untilMs ? refusal.fault : undefined;
}

/**
 * Of a kind with an identity it has the index `id`: the id that an object claims. No index has objects that another
 * release manages.
 */
export class ObjectCache<O extends CustomObject> extends ObjectStore<O> {
  readonly #release: string;
  readonly #memories = new Map<string, ObjectMemory<O>>();
  readonly #listeners: ((change: StoreChange<O>) => void)[] = [];

  constructor(identity: Identity | undefined, release: string, indexes: Record<string, StoreIndex<O>> = {}) {
    const byId = identity && { id: (object: O) => [idOf(identity, object)] };
    const all: [string, StoreIndex<O>][] = Object.entries({ ...byId, ...indexes });
    const ours = (index: StoreIndex<O>) => (object: O) =>
      otherReleaseOf(object, release) === undefined ? index(object) : [];
    super({ indexes: Object.fromEntries(all.map(([name, index]) => [name, ours(index)])) });
    this.#release = release;
  }

  /** The number of objects that other releases manage. */
  get ofOtherReleases(): number {
    let count = 0;
    for (const object of this.values()) if (otherReleaseOf(object, this.#release) !== undefined) count += 1;
    return count;
  }

  /** Calls the listener on every change, in the order of subscription. A listener only enqueues. */
  subscribe(listener: (change: StoreChange<O>) => void): void {
    this.#listeners.push(listener);
  }

  /** Notifies the listeners of a change that the store has applied. */
  publish(change: StoreChange<O>): void {
    for (const listener of this.#listeners) listener(change);
    if (change.type === 'deleted') this.#memories.delete(change.object.metadata.uid ?? '');
  }

  /** The time between two resyncs of an object: longer with many objects, so that at most about 40 run a second. */
  resyncPeriodMs(leastMs: number): number {
    return Math.max(leastMs, (this.size / 40) * 1000);
  }

  /** `resyncPeriodMs` ±15 %, so that resyncs do not come in waves. */
  resyncAfterMs(leastMs: number): number {
    return this.resyncPeriodMs(leastMs) * (0.85 + 0.3 * Math.random());
  }

  /** The memory of an object, by its UID; a new one if there is none. */
  memoryOf({ metadata: { uid = '' } }: KubeObject): ObjectMemory<O> {
    const known = this.#memories.get(uid);
    if (known) return known;
    const fresh: ObjectMemory<O> = {};
    this.#memories.set(uid, fresh);
    return fresh;
  }

  /** Forgets refusals of this code, because their cause may be over: a right was granted, an alias became free. */
  forgetRefusals(code: string): void {
    for (const memory of this.#memories.values())
      if (memory.refusal?.code === code) memory.refusal = undefined;
  }
}

/**
 * The object for the next pass: the cached one, or the last written one while the cache is behind it. With a status older
 * than the last write, a pass would mistake the operator's own Secret for an edited one.
 */
export function newestOf<O extends KubeObject>(cached: O, memory: ObjectMemory<O>): O {
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

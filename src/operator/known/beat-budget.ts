// How many statuses are written for beats alone, in the whole installation: each is a write to etcd, and beats never end.
// What has to wait gets its turn by namespace, so that one with very many Monitors starves no other.
import { TokenBucket } from '../../kube/backoff.ts';
import { FairKeys } from '../../kube/fair-keys.ts';
import { namespaceOfKey } from '../../kube/kube-object.ts';

/** A turn that is not used ends: its object may be gone, or its status has been written for another reason. */
const TURN_MS = 5000;

export class BeatBudget {
  readonly #perSecond: number;
  readonly #bucket: TokenBucket;
  readonly #wake: (key: string) => boolean;
  readonly #waiting = new FairKeys(namespaceOfKey);
  /** The keys whose turn it is, with its end; at most those of one second, however long no pass comes. */
  readonly #turns = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  /** `wake` has the next pass over an object whose turn has come run soon; false: there is no such object any more. */
  constructor(perSecond: number, wake: (key: string) => boolean) {
    this.#perSecond = perSecond;
    this.#bucket = new TokenBucket(perSecond, Math.max(1, perSecond));
    this.#wake = wake;
  }

  /** True: write now. Otherwise the key waits for its turn, and is woken then. */
  take(key: string): boolean {
    const nowMs = performance.now();
    if (this.#turns.delete(key)) return true;
    if (this.#waiting.size === 0 && this.#bucket.tryTake(nowMs)) return true;
    this.#waiting.add(key);
    this.#schedule();
    return false;
  }

  /** The key is woken when its turn comes. */
  isWaiting(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** The status was written for another reason, or the object is gone: nothing waits any more. */
  forget(key: string): void {
    this.#waiting.delete(key);
    this.#turns.delete(key);
  }

  #schedule(): void {
    // The timer keeps no process alive: without workers no turn is used.
    this.#timer ??= setTimeout(() => this.#serve(performance.now()), 1000 / this.#perSecond).unref();
  }

  #serve(nowMs: number): void {
    this.#timer = undefined;
    for (const [key, endsMs] of this.#turns) if (endsMs <= nowMs) this.#turns.delete(key);
    while (this.#waiting.size > 0 && this.#turns.size < this.#perSecond && this.#bucket.tryTake(nowMs))
      this.#wakeNext(nowMs);
    if (this.#waiting.size > 0) this.#schedule();
  }

  /** The first whose object is there has the turn. */
  #wakeNext(nowMs: number): void {
    for (let key = this.#waiting.next(); key !== undefined; key = this.#waiting.next()) {
      this.#turns.set(key, nowMs + TURN_MS);
      if (this.#wake(key)) return;
      this.#turns.delete(key);
    }
  }
}

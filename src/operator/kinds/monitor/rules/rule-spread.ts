// Wakes the Monitors that a change of a Rule concerns: some at a time, so that a Rule about ten thousand Monitors delays
// nothing else, and namespaces in turn. A lost wake costs time alone: the next resync finds the change.
import { FairKeys } from '../../../../kube/fair-keys.ts';
import { namespaceOfKey } from '../../../../kube/kube-object.ts';

/** A hundred a second. */
const EVERY_MS = 100;
const AT_ONCE = 10;

export class RuleSpread {
  readonly #wake: (keys: readonly string[]) => void;
  readonly #waiting = new FairKeys(namespaceOfKey);
  #timer: NodeJS.Timeout | undefined;

  constructor(wake: (keys: readonly string[]) => void) {
    this.#wake = wake;
  }

  /** Keys that wait already keep their place. The first ones are woken at once, if none waits. */
  add(keys: Iterable<string>): void {
    for (const key of keys) this.#waiting.add(key);
    if (this.#timer === undefined) this.#serve();
  }

  #serve(): void {
    const keys: string[] = [];
    for (let key = this.#waiting.next(); key !== undefined; key = this.#waiting.next()) {
      keys.push(key);
      if (keys.length === AT_ONCE) break;
    }
    this.#timer = undefined;
    if (keys.length === 0) return;
    this.#wake(keys);
    // The timer keeps no process alive.
    this.#timer = setTimeout(() => this.#serve(), EVERY_MS).unref();
  }
}

// Enqueues the Rules that a change of a Monitor or of another Rule concerns: at most once a second, because a Rule about ten
// thousand Monitors hears of each of them.
import { isDeepStrictEqual } from 'node:util';
import { MANAGED_BY } from '../../../contract/crd/custom-resources.ts';
import { findCondition } from '../../../kube/conditions.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { Enqueue } from '../../pass/kind.ts';
import type { MonitorObject } from '../monitor/monitor-object.ts';
import { changesGivenRules, names } from './matching.ts';
import { type RuleObject, rulesNear } from './rule-object.ts';

export interface WatchedByRules {
  rules: ObjectCache<RuleObject>;
  monitors: ObjectCache<MonitorObject>;
}

const PERIOD_MS = 1000;

export function watchRules({ rules, monitors }: WatchedByRules, enqueue: Enqueue<RuleObject>): void {
  const wakes = new SeldomWakes((keys) =>
    enqueue(
      keys.flatMap((key) => rules.get(key) ?? []),
      'low',
    ),
  );
  monitors.subscribe(({ type, object, previous }) => {
    if (type === 'updated' && !concernsRules(previous, object)) return;
    const isAbout = (rule: RuleObject) =>
      names(rule, object) || (previous !== undefined && names(rule, previous));
    wakes.add(rulesNear(rules, object).filter(isAbout).map(objectKey));
  });
  rules.subscribe(({ type, object, previous }) => {
    if (type === 'updated' && !changesGivenRules(previous, object)) return;
    const { namespace } = object.metadata;
    const keys = new Set(
      [object, previous ?? object].map(({ spec }) => `${namespace}/${spec.measurementKey}`),
    );
    const rivals = [...keys].flatMap((key) => rules.listBy('measurement', key));
    wakes.add(rivals.filter(({ metadata }) => metadata.uid !== object.metadata.uid).map(objectKey));
  });
}

/** True if Rules match another Monitor after the change, or something else has become of them there. */
function concernsRules(before: MonitorObject, after: MonitorObject): boolean {
  return !isDeepStrictEqual(shownToRules(before), shownToRules(after));
}

function shownToRules({ metadata, spec, status }: MonitorObject): object {
  const synced = findCondition(status?.conditions, 'Synced');
  return {
    ...{ labels: metadata.labels, leaves: metadata.deletionTimestamp, own: spec.measurements },
    release: metadata.annotations?.[MANAGED_BY],
    ...{ applied: status?.appliedRules, refused: status?.refusedRules },
    ...{ synced: synced?.status, reason: synced?.reason },
  };
}

/** The first keys at once, those that come within a period after it together at its end. */
class SeldomWakes {
  readonly #wake: (keys: readonly string[]) => void;
  readonly #waiting = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(wake: (keys: readonly string[]) => void) {
    this.#wake = wake;
  }

  add(keys: readonly string[]): void {
    for (const key of keys) this.#waiting.add(key);
    if (this.#timer === undefined) this.#serve();
  }

  #serve(): void {
    this.#timer = undefined;
    if (this.#waiting.size === 0) return;
    const keys = [...this.#waiting];
    this.#waiting.clear();
    this.#wake(keys);
    // The timer keeps no process alive.
    this.#timer = setTimeout(() => this.#serve(), PERIOD_MS).unref();
  }
}

// When a status that only a beat has changed is written (docs/contract/kubernetes.md, "How fast"): at most once a period for
// a Monitor, and in turn with those of all others.
import { isDeepStrictEqual } from 'node:util';
import { objectKey } from '../../../kube/kube-object.ts';
import { BeatBudget } from '../../known/beat-budget.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import type { ObjectMemory } from '../../known/object-cache.ts';
import type { OperatorTuning } from '../../operator-context.ts';
import type { MonitorObject, MonitorStatusFields } from './monitor-object.ts';
import { isBeatAlone } from './monitor-status.ts';

type Settings = Pick<OperatorTuning, 'lastBeatPeriodMs' | 'beatWritesPerSecond'>;

export class BeatWrites {
  readonly #periodMs: number;
  readonly #budget: BeatBudget;

  /** `wake` enqueues the object of this key, whose status may be written now; false: there is none. */
  constructor({ lastBeatPeriodMs, beatWritesPerSecond }: Settings, wake: (key: string) => boolean) {
    this.#periodMs = lastBeatPeriodMs;
    this.#budget = new BeatBudget(beatWritesPerSecond, wake);
  }

  /** In how many ms the status may be written; 0: now, Infinity: after `wake`. */
  holdBack(object: MonitorObject, memory: ObjectMemory, status: MonitorStatusFields): number {
    const key = objectKey(object);
    memory.beatWaitsUntilMs = undefined;
    if (!isBeatAlone(object.status, status)) {
      this.#budget.forget(key);
      memory.lateSinceMs = undefined;
      return 0;
    }
    const waitMs = Math.max(this.#beatWaitMs(object, memory), this.#lateWaitMs(object, memory, status));
    if (waitMs > 0) {
      memory.beatWaitsUntilMs = performance.now() + waitMs;
      return waitMs;
    }
    return this.#budget.take(key) ? 0 : Number.POSITIVE_INFINITY;
  }

  /** The last pass has held a beat back: another one comes for it, which writes what is the latest by then. */
  isHoldingBack(object: MonitorObject, memory: ObjectMemory): boolean {
    if (memory.lateSinceMs !== undefined) return false;
    const { beatWaitsUntilMs = Number.NEGATIVE_INFINITY } = memory;
    return beatWaitsUntilMs > performance.now() || this.#budget.isWaiting(objectKey(object));
  }

  /** The object is gone. */
  forget(key: string): void {
    this.#budget.forget(key);
  }

  /** Every write brings the last beat along. One that failed does not count. */
  written(memory: ObjectMemory): void {
    memory.beatWrittenAtMs = performance.now();
    memory.beatWaitsUntilMs = undefined;
  }

  /**
   * Counted from the last write, or, after a restart, from the last beat in the status. A time of the future there, forged
   * or of another clock, would hold the status back until then.
   */
  #beatWaitMs({ status }: MonitorObject, { beatWrittenAtMs }: ObjectMemory): number {
    if (beatWrittenAtMs !== undefined) return beatWrittenAtMs + this.#periodMs - performance.now();
    if (status?.lastBeatAt === undefined) return 0;
    const waitMs = Date.parse(status.lastBeatAt) + this.#periodMs - Date.now();
    return waitMs <= this.#periodMs ? waitMs : 0;
  }

  /** A job that is late for a moment at each of its runs is not worth a write; one that stays late is, after a period. */
  #lateWaitMs({ status: before }: MonitorObject, memory: ObjectMemory, after: MonitorStatusFields): number {
    const isNews = after.health === 'late' && before?.health !== 'late';
    memory.lateSinceMs = isNews ? (memory.lateSinceMs ?? performance.now()) : undefined;
    if (memory.lateSinceMs === undefined) return 0;
    return memory.lateSinceMs + this.#periodMs - performance.now();
  }
}

/** True if a monitor that is up has had one more beat, and nothing else has changed, also nothing that no status shows. */
export function isFurtherBeat(before: CachedMonitorStatus | undefined, after: CachedMonitorStatus): boolean {
  if (before === undefined || after.status.health !== 'up') return false;
  return isDeepStrictEqual(withoutBeat(before), withoutBeat(after));
}

/** Without what differs after each beat. A learned interval differs as well, but is news for a pass. */
function withoutBeat({ lifecycle, configurationVersion, origin, status }: CachedMonitorStatus): object {
  const { lastBeatAt, lastSequence, lastDurationSeconds, nextDeadlineAt, cadence, ...rest } = status;
  const { sampleCount, ...rhythm } = cadence;
  const has = { beat: lastBeatAt !== undefined, deadline: nextDeadlineAt !== undefined };
  return { lifecycle, configurationVersion, origin, has, rhythm, rest };
}

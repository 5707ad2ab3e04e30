// Jobs that are deleted, as they were at their end, until their end is reported. Bounded by workload, by time and in all: where
// more go than can be told, the oldest ones are forgotten, and the end of their runs was not seen.
import type { JobView } from './job-state.ts';

/** Of one workload. */
export const MAX_GONE_OF_WORKLOAD = 20;
/** In all: with their pods some 30 MiB. */
export const MAX_GONE = 5000;
/** Of a standby: the leader before it may have died before it saw the end. */
const STANDBY_MS = 600_000;
/** Of the leader: an API that is away for a day is not waited for any longer. */
const LEADER_MS = 86_400_000;

interface GoneJob extends JobView {
  goneAtMs: number;
  places: readonly string[];
  /** The Monitors that have reported it. */
  reportedFor: Set<string>;
}

export class GoneJobs {
  /** By UID; the first is the oldest. */
  readonly #jobs = new Map<string, GoneJob>();
  /** The UIDs of the Jobs of a place, the oldest first. */
  readonly #places = new Map<string, Set<string>>();
  #isLeading: boolean = false;

  get size(): number {
    return this.#jobs.size;
  }

  /** From now on what is gone is kept until it is reported. */
  lead(): void {
    this.#isLeading = true;
  }

  /** `places`: where it is looked for. `nowMs`: of the process's clock. */
  keep(view: JobView, places: readonly string[], nowMs: number): void {
    const { uid = '' } = view.job.metadata;
    this.#forget(uid);
    this.#jobs.set(uid, { ...view, isGone: true, goneAtMs: nowMs, places, reportedFor: new Set() });
    for (const place of places) {
      const uids = this.#places.get(place) ?? new Set<string>();
      this.#places.set(place, uids.add(uid));
      if (uids.size > MAX_GONE_OF_WORKLOAD) this.#forgetFirst(uids);
    }
    this.#forgetOld(nowMs);
    if (this.#jobs.size > MAX_GONE) this.#forgetFirst(this.#jobs);
  }

  /** Those of these places that are not reported for the Monitor. */
  at(places: readonly string[], monitorUid: string): JobView[] {
    const uids = new Set(places.flatMap((place) => [...(this.#places.get(place) ?? [])]));
    const found = [...uids].flatMap((uid) => this.#jobs.get(uid) ?? []);
    return found.filter(({ reportedFor }) => !reportedFor.has(monitorUid));
  }

  /** They are reported for the Monitor. Once one is for all of them, nothing keeps it. */
  settle(views: readonly JobView[], monitorUid: string, monitorUids: readonly string[]): void {
    for (const { job } of views) {
      const { uid = '' } = job.metadata;
      const known = this.#jobs.get(uid);
      known?.reportedFor.add(monitorUid);
      if (known && monitorUids.every((one) => known.reportedFor.has(one))) this.#forget(uid);
    }
  }

  /** A standby reports nothing, and a Monitor may go before its Jobs are reported. */
  #forgetOld(nowMs: number): void {
    const keptMs = this.#isLeading ? LEADER_MS : STANDBY_MS;
    for (const [uid, { goneAtMs }] of this.#jobs) {
      if (nowMs - goneAtMs < keptMs) return;
      this.#forget(uid);
    }
  }

  #forgetFirst(uids: { keys(): Iterator<string> }): void {
    const { value } = uids.keys().next();
    if (value !== undefined) this.#forget(value);
  }

  #forget(uid: string): void {
    for (const place of this.#jobs.get(uid)?.places ?? []) {
      const uids = this.#places.get(place);
      uids?.delete(uid);
      if (uids?.size === 0) this.#places.delete(place);
    }
    this.#jobs.delete(uid);
  }
}

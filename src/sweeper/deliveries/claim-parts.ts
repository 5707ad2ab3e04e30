// Which queues one claim asks for. After a claim that the database broke off, since it took too long, its projects are
// suspects: each is claimed by itself until that succeeds. So the deliveries of one project can't fail the claims of the
// others, and one that fails alone pauses. It reads no database: times of `performance.now()` are passed in.
import type { WantedDeliveries } from '../../store/deliveries/delivery-queue.ts';

interface Suspect {
  pauseMs: number;
  pausedUntil: number;
}

/** The pause doubles with each claim of the project alone that fails. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;
/** Of a project whose claims hold up nobody: no other was due. */
const MAX_PAUSE_ALONE_MS = 2_000;

/** One per dispatcher. */
export class ClaimParts {
  /** The one whose claim failed longest ago is the first. */
  readonly #suspects = new Map<string, Suspect>();
  /** The last run asked for other projects as well. */
  #hasOthers = true;

  isPaused(projectId: string, now: number): boolean {
    return (this.#suspects.get(projectId)?.pausedUntil ?? 0) > now;
  }

  /** What the claims of one run ask for: first the projects without a fault together, then one suspect in turn. */
  partsOf(wanted: readonly WantedDeliveries[]): WantedDeliveries[][] {
    const projects = new Set(wanted.map(({ projectId }) => projectId));
    this.#hasOthers = projects.size > 1;
    if (this.#suspects.size === 0) return wanted.length > 0 ? [[...wanted]] : [];
    const others = wanted.filter(({ projectId }) => !this.#suspects.has(projectId));
    const suspect = [...this.#suspects.keys()].find((projectId) => projects.has(projectId));
    const alone = wanted.filter(({ projectId }) => projectId === suspect);
    return [others, alone].filter(({ length }) => length > 0);
  }

  recordSuccess(part: readonly WantedDeliveries[]): void {
    for (const { projectId } of part) this.#suspects.delete(projectId);
  }

  /** The claim took too long. */
  recordFailure(part: readonly WantedDeliveries[], now: number): void {
    const projects = new Set(part.map(({ projectId }) => projectId));
    for (const projectId of projects) {
      const before = this.#suspects.get(projectId)?.pauseMs ?? 0;
      const pauseMs = projects.size > 1 ? 0 : Math.min(Math.max(before * 2, FIRST_PAUSE_MS), MAX_PAUSE_MS);
      const pausedUntil = now + (this.#hasOthers ? pauseMs : Math.min(pauseMs, MAX_PAUSE_ALONE_MS));
      this.#suspects.delete(projectId);
      this.#suspects.set(projectId, { pauseMs, pausedUntil });
    }
  }
}

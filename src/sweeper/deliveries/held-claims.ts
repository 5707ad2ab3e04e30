// Claimed deliveries for which their endpoint has no place yet: each is sent when an attempt there ends, without the wait
// for another claim. Projects that send to one endpoint take turns. It knows no clock: times of `performance.now()` are
// passed in.
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import { endpointKeyOf } from './due-queues.ts';

interface Held {
  claim: ClaimedDelivery;
  since: number;
}

/** One per process. Endpoints are named by their keys. */
export class HeldClaims {
  /** Of each endpoint, by project; in each project the oldest first. The project that was served last is the last. */
  readonly #endpoints = new Map<string, Map<string, Held[]>>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Of one project, or of all. */
  countAt(endpoint: string, projectId?: string): number {
    const projects = this.#endpoints.get(endpoint);
    if (projectId !== undefined) return projects?.get(projectId)?.length ?? 0;
    let count = 0;
    for (const held of projects?.values() ?? []) count += held.length;
    return count;
  }

  add(claim: ClaimedDelivery, now: number): void {
    const endpoint = endpointKeyOf(claim.endpoint);
    const projects = this.#endpoints.get(endpoint) ?? new Map<string, Held[]>();
    this.#endpoints.set(endpoint, projects);
    const held = projects.get(claim.projectId) ?? [];
    projects.set(claim.projectId, held);
    held.push({ claim, since: now });
    this.#count += 1;
  }

  /** The next one of the endpoint that was added at `since` or later. */
  takeNext(endpoint: string, since: number): ClaimedDelivery | undefined {
    const projects = this.#endpoints.get(endpoint);
    for (const [projectId, held] of projects ?? []) {
      if ((held[0]?.since ?? 0) < since) continue;
      const [next] = held.splice(0, 1);
      projects?.delete(projectId);
      if (held.length > 0) projects?.set(projectId, held);
      this.#forget(endpoint, 1);
      return next?.claim;
    }
    return undefined;
  }

  /** Those that were added before `since`, at one endpoint or at all. */
  takeOlder(since: number, endpoints: Iterable<string> = [...this.#endpoints.keys()]): ClaimedDelivery[] {
    const taken: ClaimedDelivery[] = [];
    for (const endpoint of endpoints) {
      const projects = this.#endpoints.get(endpoint);
      for (const [projectId, held] of projects ?? []) {
        const younger = held.findIndex((one) => one.since >= since);
        const older = held.splice(0, younger < 0 ? held.length : younger);
        if (held.length === 0) projects?.delete(projectId);
        taken.push(...older.map(({ claim }) => claim));
        this.#forget(endpoint, older.length);
      }
    }
    return taken;
  }

  #forget(endpoint: string, count: number): void {
    this.#count -= count;
    if (this.#endpoints.get(endpoint)?.size === 0) this.#endpoints.delete(endpoint);
  }
}

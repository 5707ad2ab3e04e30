// Archives monitors that have been orphaned for long enough (`operator.orphans: Archive`). An object that is applied again
// within 30 days restores its monitor.
import { type ApiProblem, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import { ExternalMonitor } from '../kinds/monitor/external-monitor.ts';
import { type Declared, keyOf, type Sight } from './orphan-watch.ts';

export interface OrphanArchiveOptions {
  api: RestClient;
  log: KubeLog;
  /** How long a monitor must have been orphaned. */
  afterMs: number;
  lookFor(declared: Declared): Sight;
}

/** One by one after a listing: housekeeping has other work too. */
const MAX_AT_ONCE = 100;

export class OrphanArchive {
  readonly #options: OrphanArchiveOptions;
  #isHeldBack: boolean = false;
  /** What the API refused to archive, the one that was tried longest ago first. */
  readonly #refused = new Set<string>();

  constructor(options: OrphanArchiveOptions) {
    this.#options = options;
  }

  /**
   * Nothing while more than half of what was judged is orphaned: then a cluster is being rebuilt, or its objects were lost.
   * Throws ApiProblem if the API does not answer.
   */
  async settle(orphans: readonly Declared[], judged: number, signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    const wasHeldBack = this.#isHeldBack;
    this.#isHeldBack = orphans.length * 2 > judged;
    if (this.#isHeldBack) {
      if (!wasHeldBack)
        log.warn(
          { orphaned: orphans.length, judged },
          'More than half of the monitors have lost their objects: none is archived until most objects are back.',
        );
      return;
    }
    const { oldest, refused } = this.#split(orphans);
    let count = 0;
    for (const orphan of oldest.slice(0, MAX_AT_ONCE)) {
      if (!(await this.#archive(orphan, signal))) break;
      count += 1;
    }
    for (const orphan of refused.slice(0, MAX_AT_ONCE - count)) await this.#archive(orphan, signal);
  }

  /** Those that were refused come last, and in turns: they hold up no other. */
  #split(orphans: readonly Declared[]): { oldest: Declared[]; refused: Declared[] } {
    const known = new Map(orphans.map((orphan) => [keyOf(orphan), orphan]));
    for (const key of this.#refused) if (!known.has(key)) this.#refused.delete(key);
    const oldest = orphans
      .filter((orphan) => orphan.orphanedAt !== undefined && !this.#refused.has(keyOf(orphan)))
      .toSorted((a, b) => ((a.orphanedAt ?? '') < (b.orphanedAt ?? '') ? -1 : 1));
    return { oldest, refused: [...this.#refused].flatMap((key) => known.get(key) ?? []) };
  }

  /** False if it is not time yet, as it is not for younger orphans either. */
  async #archive(orphan: Declared, signal: AbortSignal): Promise<boolean> {
    const { api, log, afterMs, lookFor } = this.#options;
    const { projectId, monitorId: id, namespace, name } = orphan;
    const monitor = new ExternalMonitor(api, { projectId, id, uid: 'orphan', signal });
    try {
      const record = await monitor.read();
      const { orphanedAt } = record?.origin ?? {};
      // Somebody has ended it, or an object has it again.
      if (record?.lifecycle === 'archived' || orphanedAt === undefined) return true;
      // Both times are of the service: the clock of the operator may be wrong.
      if (!(Date.parse(orphanedAt) + afterMs <= monitor.readDateMs)) return false;
      if (lookFor(orphan) !== 'gone') return true;
      await monitor.changeLifecycle({ action: 'archive' });
      // An object that was applied just now may have taken the monitor over before it was archived.
      if (lookFor(orphan) === 'there') await monitor.changeLifecycle({ action: 'restore' });
      else
        log.warn(
          { projectId, monitorId: id, namespace, name, orphanedAt },
          'Archived a monitor whose Monitor is gone; it can be restored for 30 days.',
        );
    } catch (error) {
      if (!isProblem(error, 'permanent', 'conflict', 'gone')) throw error;
      this.#postpone(orphan, error);
    }
    return true;
  }

  #postpone(orphan: Declared, error: ApiProblem): void {
    const key = keyOf(orphan);
    const isNew = !this.#refused.delete(key);
    this.#refused.add(key);
    const { monitorId, namespace, name } = orphan;
    this.#options.log[isNew ? 'warn' : 'debug'](
      { err: error, monitorId, namespace, name },
      'The API does not archive a monitor whose Monitor is gone; it is tried again after the others.',
    );
  }
}

// Finds monitors whose Monitor is gone: it was deleted while nothing was installed, or with its whole cluster. Judges after
// each whole listing of the feed, and tells the API what has changed (docs/contract/kubernetes.md, "Orphans"). The leader
// does it. Endpoints are in callback-orphans.ts.
import { isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import { MAX_REPORTED } from '../../contract/resources/origin.ts';
import type { StatusFeedItem } from '../../contract/resources/status-feed.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { FeedListener } from '../known/status-feed-follower.ts';
import type { OperatorMetrics } from '../operator-metrics.ts';

/** An object by what the API knows of it. */
export interface DeclaredObject {
  projectId: string;
  namespace: string;
  name: string;
}

/** A monitor that is not archived, and the Monitor that declared it. */
export interface Declared extends DeclaredObject {
  monitorId: string;
  /** Since when it is orphaned, as the API has it. */
  orphanedAt: string | undefined;
  /** Another monitor has the origin too, in the database of another jurisdiction. */
  isDouble?: boolean;
}

/** `unknown`: the cache of the namespace is not full, or another release manages the object. */
export type Sight = 'there' | 'gone' | 'unknown';

export interface OrphanWatchOptions {
  api: RestClient;
  metrics: Pick<OperatorMetrics, 'monitorsOrphaned'>;
  log: KubeLog;
  /** Whether the caches have the Monitor of that name in that project. One of several monitors of it: if it is that one's. */
  lookFor(declared: Declared): Sight;
}

interface Change {
  declared: Declared;
  sight: Sight;
}

/** How many names a line of the log may have. */
const MAX_NAMED = 10;

export class OrphanWatch implements FeedListener {
  readonly #options: OrphanWatchOptions;
  readonly #listing = new Map<string, Declared>();
  #listed: readonly Declared[] = [];
  /** What the last judgement called gone. */
  #gone: ReadonlySet<string> = new Set();
  /** As last logged. */
  #known: ReadonlySet<string> = new Set();

  constructor(options: OrphanWatchOptions) {
    this.#options = options;
  }

  itemChanged(): void {
    // The next listing has it.
  }

  itemListed({ projectId, monitorId, lifecycle, origin }: StatusFeedItem): void {
    const key = keyOf({ projectId, monitorId });
    if (origin?.kind !== 'Monitor' || lifecycle === 'archived') return void this.#listing.delete(key);
    const { namespace, name, orphanedAt } = origin;
    this.#listing.set(key, { projectId, monitorId, namespace, name, orphanedAt });
  }

  /** Without what a listing that failed has left. */
  listingEnded(listed: ReadonlySet<string>): void {
    const whole = [...this.#listing].filter(([key]) => listed.has(key)).map(([, declared]) => declared);
    const byOrigin = Map.groupBy(
      whole,
      ({ projectId, namespace, name }) => `${projectId}/${namespace}/${name}`,
    );
    this.#listed = [...byOrigin.values()].flatMap((same) =>
      same.length === 1 ? same : same.map((declared) => ({ ...declared, isDouble: true })),
    );
    this.#listing.clear();
  }

  /**
   * Judges the last listing. An object may go while the feed is listed, before its monitor is archived there: only what two
   * listings in a row call gone is orphaned. Returns the orphans, and how many monitors were judged. Never throws an
   * ApiProblem.
   */
  async settle(signal: AbortSignal): Promise<{ orphans: Declared[]; judged: number }> {
    const { lookFor, metrics } = this.#options;
    const sights = this.#listed.map((declared) => ({ declared, sight: lookFor(declared) }));
    const seenAs = (wanted: Sight) =>
      sights.filter(({ sight }) => sight === wanted).map(({ declared }) => declared);
    const [gone, seen] = [seenAs('gone'), seenAs('there')];
    const wasGone = this.#gone;
    this.#gone = new Set(gone.map(keyOf));
    const orphans = gone.filter((one) => one.orphanedAt !== undefined || wasGone.has(keyOf(one)));
    const unjudged = seenAs('unknown').filter(({ orphanedAt }) => orphanedAt !== undefined);
    metrics.monitorsOrphaned.set(orphans.length + unjudged.length);
    this.#say(orphans);
    await this.#report(
      orphans.filter(({ orphanedAt }) => orphanedAt === undefined),
      seen.filter(({ orphanedAt }) => orphanedAt !== undefined),
      signal,
    );
    return { orphans, judged: gone.length + seen.length };
  }

  /** Changes only. What fails is reported after the next listing. */
  async #report(orphaned: Declared[], seen: Declared[], signal: AbortSignal): Promise<void> {
    const changes = [
      ...orphaned.map((declared): Change => ({ declared, sight: 'gone' })),
      ...seen.map((declared): Change => ({ declared, sight: 'there' })),
    ];
    for (const [project, ofProject] of Map.groupBy(changes, ({ declared }) => declared.projectId))
      for (let start = 0; start < ofProject.length; start += MAX_REPORTED)
        await this.#send(project, ofProject.slice(start, start + MAX_REPORTED), signal);
  }

  /** What has changed while earlier calls ran is left to the next listing. */
  async #send(project: string, changes: readonly Change[], signal: AbortSignal): Promise<void> {
    const { api, log, lookFor } = this.#options;
    const still = changes.filter(({ declared, sight }) => lookFor(declared) === sight);
    if (still.length === 0) return;
    const idsOf = (wanted: Sight) =>
      still.filter(({ sight }) => sight === wanted).map(({ declared }) => declared.monitorId);
    const body = { orphaned: idsOf('gone'), seen: idsOf('there') };
    try {
      await api.call('reportMonitorOrigins', { body }, { project, signal });
    } catch (error) {
      if (!isProblem(error)) throw error;
      log.debug({ err: error, project }, 'Could not report orphaned monitors; the next listing tries again.');
    }
  }

  #say(orphans: readonly Declared[]): void {
    const known = this.#known;
    this.#known = new Set(orphans.map(keyOf));
    const news = orphans.filter((one) => !known.has(keyOf(one)));
    if (news.length === 0) return;
    const objects = news.slice(0, MAX_NAMED).map(({ namespace, name }) => `${namespace}/${name}`);
    this.#options.log.warn(
      { orphaned: orphans.length, new: news.length, objects },
      'Monitors at the API have lost their objects: apply those again, or archive what nobody needs. GET /v1/monitors?origin=orphaned lists them.',
    );
  }
}

export function keyOf({ projectId, monitorId }: Pick<Declared, 'projectId' | 'monitorId'>): string {
  return `${projectId}/${monitorId}`;
}

// Endpoints whose Callback is gone: they go on receiving alerts, whoever listens there now. They are counted and named, and
// nothing removes them: a person decides who is told. The leader reads them slowly: the feed has no endpoints.
import type { RestClient } from '../../client/rest-client.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { OperatorMetrics } from '../operator-metrics.ts';
import type { DeclaredObject, Sight } from './orphan-watch.ts';

export interface CallbackOrphansOptions {
  api: RestClient;
  metrics: Pick<OperatorMetrics, 'callbacksOrphaned'>;
  log: KubeLog;
  /** Whether the caches have the Callback of that name in that project. */
  lookFor(declared: DeclaredObject): Sight;
}

interface Endpoint extends DeclaredObject {
  id: string;
  isDefault: boolean;
}

/** One reading in so many readings of the feed: about every ten minutes. */
const READINGS = 15;
const PAGE = 200;
const MAX_NAMED = 10;

export class CallbackOrphans {
  readonly #options: CallbackOrphansOptions;
  #turn = 0;
  /** What the last reading called gone. */
  #gone: ReadonlySet<string> = new Set();
  /** As last logged. */
  #known: ReadonlySet<string> = new Set();

  constructor(options: CallbackOrphansOptions) {
    this.#options = options;
  }

  /** Call it after each reading of the feed. What two readings in a row call gone is orphaned. Throws ApiProblem. */
  async settle(projectIds: Iterable<string>, signal: AbortSignal): Promise<void> {
    if (this.#turn % READINGS === 0) await this.#read(projectIds, signal);
    // After a failure the next reading of the feed tries again.
    this.#turn += 1;
  }

  async #read(projectIds: Iterable<string>, signal: AbortSignal): Promise<void> {
    const { lookFor, metrics } = this.#options;
    const gone: Endpoint[] = [];
    for (const projectId of projectIds)
      for (const endpoint of await this.#list(projectId, signal))
        if (lookFor(endpoint) === 'gone') gone.push(endpoint);
    const orphans = gone.filter((endpoint) => this.#gone.has(keyOf(endpoint)));
    this.#gone = new Set(gone.map(keyOf));
    metrics.callbacksOrphaned.set(orphans.length);
    this.#say(orphans);
  }

  /** Those that receive alerts and that a Callback declared. */
  async #list(projectId: string, signal: AbortSignal): Promise<Endpoint[]> {
    const endpoints: Endpoint[] = [];
    let cursor: string | undefined;
    do {
      const query = { limit: PAGE, cursor };
      const { body } = await this.#options.api.call(
        'listCallbacks',
        { query },
        { project: projectId, signal },
      );
      for (const { id, origin, lifecycle, isOrganizationDefault: isDefault } of body.items) {
        if (origin === undefined || lifecycle !== 'active') continue;
        endpoints.push({ projectId, id, namespace: origin.namespace, name: origin.name, isDefault });
      }
      cursor = body.nextCursor;
    } while (cursor !== undefined);
    return endpoints;
  }

  /** Those that get the alerts of the whole organization come first. */
  #say(orphans: readonly Endpoint[]): void {
    const known = this.#known;
    this.#known = new Set(orphans.map(keyOf));
    const news = orphans.filter((endpoint) => !known.has(keyOf(endpoint)));
    if (news.length === 0) return;
    const objects = news
      .toSorted((a, b) => Number(b.isDefault) - Number(a.isDefault))
      .slice(0, MAX_NAMED)
      .map(({ namespace, name, id, isDefault }) => {
        const what = isDefault ? `${id}, the organization's default` : id;
        return `${namespace}/${name} (${what})`;
      });
    this.#options.log.warn(
      { orphaned: orphans.length, new: news.length, objects },
      'Endpoints at the API have lost their Callbacks and go on receiving alerts: apply those again, or remove the endpoints.',
    );
  }
}

function keyOf({ projectId, id }: Endpoint): string {
  return `${projectId}/${id}`;
}

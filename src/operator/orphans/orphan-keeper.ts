// Monitors whose object is gone, from the judgement by the caches to what the setting says about them. Called by the leader
// after each whole listing of the feed, and never before the caches are full.
import type { KubeObject } from '../../kube/kube-object.ts';
import { projectNameOf } from '../known/project-directory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { otherReleaseOf } from '../pass/release.ts';
import { OrphanArchive } from './orphan-archive.ts';
import { type Declared, OrphanWatch, type Sight } from './orphan-watch.ts';

/** The cached Monitor under `namespace/name`. */
type FindMonitor = (key: string) => KubeObject | undefined;

export class OrphanKeeper {
  readonly #watch: OrphanWatch;
  readonly #archive: OrphanArchive | undefined;

  constructor(context: OperatorContext, findMonitor: FindMonitor) {
    const { api, log, metrics, feed, settings } = context;
    const lookFor = (declared: Declared) => lookForMonitor(context, findMonitor, declared);
    this.#watch = new OrphanWatch({ api, log, metrics, lookFor });
    const afterMs = settings.orphanArchiveAfterMs;
    if (settings.orphans === 'Archive') this.#archive = new OrphanArchive({ api, log, lookFor, afterMs });
    feed.subscribe(this.#watch);
  }

  /** Throws ApiProblem. */
  async settle(signal: AbortSignal): Promise<void> {
    const { orphans, judged } = await this.#watch.settle(signal);
    await this.#archive?.settle(orphans, judged, signal);
  }
}

/** An object whose namespace is in another project declares another monitor. */
function lookForMonitor(
  context: OperatorContext,
  findMonitor: FindMonitor,
  { namespace, name, projectId }: Declared,
): Sight {
  const { watched, namespaces, projects, sharedProjects, settings } = context;
  if (!watched.isWatched(namespace)) return 'unknown';
  const object = findMonitor(`${namespace}/${name}`);
  if (object === undefined) return 'gone';
  if (otherReleaseOf(object, settings.release) !== undefined) return 'unknown';
  // The caches fill one by one: the namespace of a new object may come later.
  if (settings.isClusterWide && namespaces.get(namespace) === undefined) return 'unknown';
  const projectName = projectNameOf(context, object);
  // Its monitors stay as they are, and its condition says so.
  if (!sharedProjects.allows(namespace, projectName)) return 'unknown';
  // Names of projects change. A name that leads nowhere yet says nothing of where the object was.
  const id = projects.knownId(projectName);
  if (id === undefined) return 'unknown';
  return id === projectId ? 'there' : 'gone';
}

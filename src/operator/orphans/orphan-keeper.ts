// Monitors and endpoints whose object is gone, from the judgement by the caches to what the setting says about them. Called by the leader
// after each whole listing of the feed, and never before the caches are full.
import { MONITOR_IDENTITY } from '../kinds/monitor/monitor-object.ts';
import { projectNameOf } from '../known/project-directory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { idOf } from '../pass/identity.ts';
import type { CustomObject } from '../pass/object.ts';
import { otherReleaseOf } from '../pass/release.ts';
import { CallbackOrphans } from './callback-orphans.ts';
import { OrphanArchive } from './orphan-archive.ts';
import { type Declared, type DeclaredObject, OrphanWatch, type Sight } from './orphan-watch.ts';

/** Finds the cached object under `namespace/name`. */
type Find = (key: string) => CustomObject | undefined;

export class OrphanKeeper {
  readonly #context: OperatorContext;
  readonly #watch: OrphanWatch;
  readonly #callbacks: CallbackOrphans;
  readonly #archive: OrphanArchive | undefined;

  constructor(context: OperatorContext, find: Readonly<Record<'Monitor' | 'Callback', Find>>) {
    const { api, log, metrics, feed, settings } = context;
    this.#context = context;
    const lookFor = (declared: Declared) => lookForMonitor(context, find.Monitor, declared);
    const lookForCallback = (declared: DeclaredObject) => lookForObject(context, find.Callback, declared);
    this.#watch = new OrphanWatch({ api, log, metrics, lookFor });
    this.#callbacks = new CallbackOrphans({ api, log, metrics, lookFor: lookForCallback });
    const afterMs = settings.orphanArchiveAfterMs;
    if (settings.orphans === 'Archive') this.#archive = new OrphanArchive({ api, log, lookFor, afterMs });
    feed.subscribe(this.#watch);
  }

  /** Throws ApiProblem. */
  async settle(signal: AbortSignal): Promise<void> {
    const { orphans, judged } = await this.#watch.settle(signal);
    await this.#archive?.settle(orphans, judged, signal);
    await this.#callbacks.settle(this.#context.projects.knownIds, signal);
  }
}

/** Of several monitors that stand for one Monitor those are gone that it does not name. */
function lookForMonitor(context: OperatorContext, find: Find, declared: Declared): Sight {
  const sight = lookForObject(context, find, declared);
  if (sight !== 'there' || !declared.isDouble) return sight;
  const object = find(`${declared.namespace}/${declared.name}`);
  return object && idOf(MONITOR_IDENTITY, object) === declared.monitorId ? 'there' : 'gone';
}

/** An object whose namespace is in another project declares another monitor or endpoint. */
function lookForObject(
  context: OperatorContext,
  find: Find,
  { namespace, name, projectId }: DeclaredObject,
): Sight {
  const { watched, namespaces, projects, sharedProjects, settings } = context;
  if (!watched.isWatched(namespace)) return 'unknown';
  const object = find(`${namespace}/${name}`);
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

// Lets the Monitors and Callbacks of a release go, before it is uninstalled: their status says that nobody keeps it up to
// date, and they lose the operator's finalizer, so that they can be deleted. A pre-delete hook of the chart runs it. The
// monitors and endpoints in the API stay as they are. It may run many times: what is done is skipped.
import { setTimeout as delay } from 'node:timers/promises';
import { CUSTOM_RESOURCES, FINALIZER, MANAGED_BY } from '../contract/crd/custom-resources.ts';
import { backoffMs } from '../kube/backoff.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import { isConflict, isExpired, isForbidden, isNotFound, isPassing, KubeError } from '../kube/kube-error.ts';
import { hasFinalizer, type KubeResource, objectKey, withoutBookkeeping } from '../kube/kube-object.ts';
import type { Log } from '../telemetry/log.ts';
import { isNotInstalled, notInstalledStatus, type OurObject } from './not-installed.ts';

export interface ReleaseOptions {
  /** Empty: all. */
  watchNamespaces: readonly string[];
  /** Objects that another release manages are left alone. Undefined: there is no other. */
  release?: string | undefined;
}

/** How many objects are in memory at once. */
const PAGE = 500;
/** How many calls run at once: the API server keeps most of its places for others. */
const CONCURRENCY = 16;
const MAX_TRIES = 8;
/** Of what was left, in the log. */
const MOST_NAMED = 20;

/** Resolves to the number of changed objects. Goes on after an object that fails, and throws an Error at the end. */
export async function releaseObjects(client: KubeClient, options: ReleaseOptions, log: Log): Promise<number> {
  const run = new Run(client, options, log);
  const { watchNamespaces } = options;
  for (const namespace of watchNamespaces.length > 0 ? watchNamespaces : [undefined]) {
    for (const resource of Object.values(CUSTOM_RESOURCES)) await run.releaseAll(resource, namespace);
  }
  await run.releaseBusy();
  if (run.failed === 0) {
    reportReleased(run, log);
    return run.released;
  }
  const first = run.firstError?.message ?? '';
  throw new Error(
    `${run.failed} objects still have the finalizer ${FINALIZER}, and ${run.released} were released. The first fault: ${first}`,
  );
}

function reportReleased({ released: count, busy }: Run, log: Log): void {
  if (busy.length === 0) {
    log.info({ count }, 'Removed the finalizers.');
    return;
  }
  const objects = busy
    .slice(0, MOST_NAMED)
    .map(({ resource, object }) => `${resource.kind} ${objectKey(object)}`);
  log.warn(
    { count, left: busy.length, objects },
    `Removed the finalizers, but not those of ${busy.length} objects that somebody changes all the time. Stop who changes them, or remove them: kubectl --namespace NAMESPACE patch KIND NAME --type merge --patch '{"metadata":{"finalizers":null}}'`,
  );
}

interface Busy {
  resource: KubeResource<OurObject>;
  object: OurObject;
}

class Run {
  readonly #client: KubeClient;
  readonly #options: ReleaseOptions;
  readonly #log: Log;
  released = 0;
  failed = 0;
  firstError: Error | undefined;
  /** What changed at each try. Whoever writes his objects all the time keeps their finalizers, and nobody from an uninstall. */
  busy: Busy[] = [];

  constructor(client: KubeClient, options: ReleaseOptions, log: Log) {
    this.#client = client;
    this.#options = options;
    this.#log = log;
  }

  /** Skips a kind that the cluster does not have, and a named namespace that is gone or closed to this account. */
  async releaseAll(resource: KubeResource, namespace: string | undefined): Promise<void> {
    const ours = { ...resource, transform: withoutBookkeeping } as KubeResource<OurObject>;
    try {
      await this.#releasePages(ours, namespace);
    } catch (error) {
      const isClosed = namespace !== undefined && isForbidden(error);
      if (!isNotFound(error) && !isClosed) throw error;
      const what = { namespace, kind: resource.kind, err: error };
      this.#log.warn(what, 'Cannot read the objects of a namespace: left them as they are.');
    }
  }

  /** Tries once more: who wrote an object may have been at work for that moment alone. */
  async releaseBusy(): Promise<void> {
    const rest = this.busy.values();
    this.busy = [];
    const work = async () => {
      for (const { resource, object } of rest) await this.#releaseOne(resource, object);
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
  }

  async #releasePages(resource: KubeResource<OurObject>, namespace: string | undefined): Promise<void> {
    let token: string | undefined;
    do {
      const call = { namespace, limit: PAGE, continue: token };
      const page = await persist(() => this.#client.list(resource, call)).catch((error: unknown) => {
        if (token !== undefined && isExpired(error)) return undefined;
        throw error;
      });
      // The pages before took longer than the token lives. What they did is skipped now.
      token = page === undefined ? '' : page.metadata.continue;
      if (page !== undefined) await this.#releasePage(resource, page.items);
      if (page !== undefined && token === '') token = undefined;
    } while (token !== undefined);
  }

  async #releasePage(resource: KubeResource<OurObject>, objects: OurObject[]): Promise<void> {
    const rest = objects.values();
    const work = async () => {
      for (const object of rest) await this.#releaseOne(resource, object);
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
  }

  async #releaseOne(resource: KubeResource<OurObject>, object: OurObject): Promise<void> {
    try {
      if (await persist(() => this.#release(resource, object))) this.released += 1;
    } catch (error) {
      const what = { kind: resource.kind, object: objectKey(object), err: error };
      if (isConflict(error)) {
        this.busy.push({ resource, object });
        return;
      }
      this.failed += 1;
      this.firstError ??= error as Error;
      this.#log.warn(what, 'Could not release an object; going on with the others.');
    }
  }

  /** The status comes first: an object that is being deleted is gone when it loses its finalizer. */
  async #release(resource: KubeResource<OurObject>, listed: OurObject): Promise<boolean> {
    for (let object: OurObject | undefined = listed, tries = 1; ; tries += 1) {
      if (object === undefined || object.metadata.uid !== listed.metadata.uid) return false;
      if (this.#isDone(object)) return tries > 1;
      try {
        await this.#removeMarks(resource, await this.#showNotInstalled(resource, object));
        return true;
      } catch (error) {
        if (isNotFound(error)) return false;
        if (!isConflict(error) || tries >= MAX_TRIES) throw error;
        object = await this.#client.find(resource, listed.metadata);
      }
    }
  }

  #isDone(object: OurObject): boolean {
    const manager = object.metadata.annotations?.[MANAGED_BY];
    const { release } = this.#options;
    if (manager && release !== undefined && manager !== release) return true;
    if (hasFinalizer(object, FINALIZER) || manager !== undefined) return false;
    return object.status === undefined || isNotInstalled(object.status);
  }

  /** A status that the API server refuses keeps no object. */
  async #showNotInstalled(resource: KubeResource<OurObject>, object: OurObject): Promise<OurObject> {
    const { metadata, status } = object;
    const isLeaving = metadata.deletionTimestamp !== undefined;
    if (isLeaving || status === undefined || isNotInstalled(status)) return object;
    const patch = {
      metadata: { resourceVersion: metadata.resourceVersion },
      status: notInstalledStatus(object, Date.now()),
    };
    try {
      return await this.#client.mergePatch(resource, metadata, patch, { subresource: 'status' });
    } catch (error) {
      if (isConflict(error) || isNotFound(error) || isPassing(error)) throw error;
      this.#log.warn({ object: objectKey(object), err: error }, 'Could not write a status.');
      return object;
    }
  }

  /** A merge patch replaces the whole list of finalizers: guarded, it removes none of another controller's. */
  async #removeMarks(resource: KubeResource<OurObject>, { metadata }: OurObject): Promise<void> {
    const isClaimed = metadata.annotations?.[MANAGED_BY] !== undefined;
    if (!isClaimed && !hasFinalizer({ metadata }, FINALIZER)) return;
    const { uid, resourceVersion } = metadata;
    const finalizers = metadata.finalizers?.filter((name) => name !== FINALIZER);
    const annotations = isClaimed ? { [MANAGED_BY]: null } : undefined;
    await this.#client.mergePatch(resource, metadata, {
      metadata: { uid, resourceVersion, finalizers, annotations },
    });
  }
}

/** Repeats a call that got no answer, or a passing refusal such as 429. Throws what does not pass. */
async function persist<T>(call: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof KubeError) || !isPassing(error) || failures >= MAX_TRIES) throw error;
      await delay(Math.max(error.retryAfterMs ?? 0, backoffMs(failures, { baseMs: 250, maxMs: 10_000 })));
    }
  }
}

// The benchmark of the operator: how long a change of state at the API takes to the status of the object, as a watch of the
// cluster sees it, beside the beats of all the others.
import type { KubeClient } from '../src/kube/kube-client.ts';
import { isExpired } from '../src/kube/kube-error.ts';
import { MONITORS, type MonitorObject } from '../src/operator/kinds/monitor/monitor-object.ts';
import { FIELD_MANAGER } from '../src/operator/resources/names.ts';
import type { MinuteBeats } from './minute-beats.ts';
import { NAMESPACE, type OperatorProduct } from './operator-product.ts';

/** As many as the operator has passes over Monitors at once. */
const WRITERS = 8;
const WATCH_SECONDS = 3_600;

/** Milliseconds of each change, in ascending order: from when its beat went out to the event of the watch. */
export interface Changes {
  down: number[];
  up: number[];
}

/** The health of each monitor as the objects say it. */
export class WatchedHealth {
  readonly #abort = new AbortController();
  readonly #seen = new Map<string, { health: string; atMs: number }>();
  #ended: Promise<void> | undefined;

  async start(kube: KubeClient): Promise<void> {
    const { metadata } = await kube.list(MONITORS, { namespace: NAMESPACE, limit: 1 });
    this.#ended = this.#follow(kube, metadata.resourceVersion ?? '');
  }

  /** Forgets what it has seen. */
  clear(): void {
    this.#seen.clear();
  }

  /** When each was first seen with this health; undefined while one is missing. */
  momentsOf(monitorIds: readonly string[], health: string): Map<string, number> | undefined {
    const moments = new Map<string, number>();
    for (const monitorId of monitorIds) {
      const seen = this.#seen.get(monitorId);
      if (seen?.health !== health) return undefined;
      moments.set(monitorId, seen.atMs);
    }
    return moments;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#ended;
  }

  async #follow(kube: KubeClient, resourceVersion: string): Promise<void> {
    const { signal } = this.#abort;
    const options = { namespace: NAMESPACE, resourceVersion, timeoutSeconds: WATCH_SECONDS, signal };
    try {
      for await (const event of kube.watch(MONITORS, options)) {
        if (event.type === 'BOOKMARK') continue;
        const { monitorId = '', health = '' } = event.object.status ?? {};
        if (this.#seen.get(monitorId)?.health === health) continue;
        this.#seen.set(monitorId, { health, atMs: performance.now() });
      }
    } catch (error) {
      if (!signal.aborted || isExpired(error)) throw error;
    }
  }
}

/** Takes so many monitors down at once by a failure that they report, then up again by a beat. */
export async function measureChanges(
  product: OperatorProduct,
  { beats, watched }: { beats: MinuteBeats; watched: WatchedHealth },
  monitorIds: readonly string[],
): Promise<Changes> {
  beats.hold(monitorIds);
  const change = async (kind: string, health: string) => {
    watched.clear();
    const sentAtMs = await beats.sendAll(monitorIds, kind);
    const are = () => watched.momentsOf(monitorIds, health) !== undefined;
    const limits = { timeoutMs: 600_000, intervalMs: 100 };
    await product.until(`${monitorIds.length} objects are ${health}`, are, limits);
    const times = [...(watched.momentsOf(monitorIds, health) ?? [])].map(
      ([monitorId, atMs]) => atMs - (sentAtMs.get(monitorId) ?? 0),
    );
    return times.sort((a, b) => a - b);
  };
  const down = await change('/fail', 'down');
  const up = await change('', 'up');
  beats.release();
  return { down, up };
}

/** Writes as many statuses in the way of the operator, without one: the least that so many changes can take. */
export async function writeBareStatuses({ kube }: OperatorProduct, count: number): Promise<void> {
  const monitors: MonitorObject[] = [];
  for await (const monitor of kube.listAll(MONITORS, { namespace: NAMESPACE })) {
    if (monitors.length === count) break;
    monitors.push(monitor);
  }
  const rest = monitors.values();
  const writeRest = async () => {
    for (const { metadata, status: before } of rest) {
      const { name, namespace, resourceVersion } = metadata;
      const status = { ...before, nextDeadlineAt: new Date().toISOString() };
      const body = { metadata: { name, namespace, resourceVersion }, status };
      await kube.apply(MONITORS, body, { subresource: 'status', fieldManager: FIELD_MANAGER });
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writeRest));
}

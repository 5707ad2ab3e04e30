// Writes Events about objects. Repeats become a count on one Event, and everything is bounded: the recorder may drop an
// Event, but never delays its caller, and the Events of one namespace neither delay nor displace those of others. The Events
// are those of the core group: the API server refuses a `lastTimestamp` in events.k8s.io/v1, and by it people sort
// (`kubectl get events --sort-by=.lastTimestamp`).

import { randomBytes } from 'node:crypto';
import { TokenBucket } from './backoff.ts';
import type { KubeClient } from './kube-client.ts';
import { isAlreadyExists, isNotFound, isPassing } from './kube-error.ts';
import { type KubeLog, silentLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { formatSeconds, type KubeObject, type KubeResource, namespaceOfKey } from './kube-object.ts';
import { WorkQueue } from './work-queue.ts';

export interface EventFacts {
  type: 'Normal' | 'Warning';
  /** CamelCase, at most 128 characters: `Created`. */
  reason: string;
  /** What the controller did, CamelCase. Default: the reason. */
  action?: string;
  /** A sentence without secrets; cut to 1,024 bytes. */
  note: string;
}

export interface EventRecorderOptions {
  client: KubeClient;
  /** Who reports: `beatkeeper.dev/operator`. */
  controller: string;
  /** `reportingInstance`: the pod's name; cut to 128 characters. */
  instance: string;
  tuning?: EventTuning;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export interface EventTuning {
  /** The shortest time between two writes of one Event. Default 10,000. */
  repeatMs?: number;
  /** A repeat after this time becomes a new Event. Default 600,000. */
  seriesMs?: number;
  /** The number of Events remembered for repeats, and of Events that wait to be written. Default 1,000 each. */
  capacity?: number;
}

interface EventObject extends KubeObject, Times {
  firstTimestamp: string;
  source: { component: string };
  reportingComponent: string;
  reportingInstance: string;
  action: string;
  reason: string;
  involvedObject: object;
  message: string;
  type: string;
}

/** What a repeat changes. */
interface Times {
  count: number;
  lastTimestamp: string;
}

/** One Event and its repeats. It holds what is written, and no reference to the object. */
interface Series {
  event: EventObject;
  count: number;
  /** When it was last recorded, by the clock of the machine: for people. */
  lastMs: number;
  /** The same, by the clock of the process, which nobody sets. */
  lastAtMs: number;
  /** The count in the cluster; 0: not created yet. */
  writtenCount: number;
  /** By the clock of the process. */
  writtenAtMs: number;
}

const events: KubeResource<EventObject> = {
  apiVersion: 'v1',
  kind: 'Event',
  plural: 'events',
  namespaced: true,
};
const maxNoteBytes = 1024;
const maxFieldLength = 128;
/** Limits the different Events about one object: a burst, then one in half a minute. */
const perObject = { perSecond: 1 / 30, burst: 25 };
const maxFailures = 5;
/** The part of the waiting Events that one namespace may have. */
const maxShare = 1 / 4;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #log: KubeLog;
  readonly #queue: WorkQueue;
  readonly #repeatMs: number;
  readonly #seriesMs: number;
  readonly #capacity: number;
  /** Both maps have the least recently used entry first. */
  readonly #series = new Map<string, Series>();
  readonly #buckets = new Map<string, TokenBucket>();
  readonly #unwritten = new Set<string>();
  /** How many of them are of a namespace. */
  readonly #ofNamespace = new Map<string, number>();
  readonly #abort = new AbortController();
  readonly #writer: Promise<void>;
  #allWritten: (() => void) | undefined;
  #isStopped: boolean = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    this.#queue = new WorkQueue({ name: 'events', groupOf: namespaceOfKey });
    this.#repeatMs = options.tuning?.repeatMs ?? 10_000;
    this.#seriesMs = options.tuning?.seriesMs ?? 600_000;
    this.#capacity = options.tuning?.capacity ?? 1000;
    this.#writer = this.#write();
  }

  /** Records an Event about `regarding`, which needs apiVersion, kind and uid. Returns at once and never throws. */
  record(regarding: KubeObject, facts: EventFacts): void {
    if (this.#isStopped) return;
    const uid = regarding.metadata.uid ?? '';
    const about = `${regarding.metadata.namespace ?? ''}/${uid}`;
    const key = [about, facts.type, facts.reason, facts.action ?? '', facts.note].join('\0');
    const known = this.#series.get(key);
    const isRepeat = known !== undefined && performance.now() - known.lastAtMs < this.#seriesMs;
    if (isRepeat) this.#repeat(key, known);
    else this.#begin(key, regarding, facts);
  }

  /** Writes the waiting Events for at most `timeoutMs`, then drops the rest. */
  async stop(timeoutMs = 2000): Promise<void> {
    this.#isStopped = true;
    for (const key of this.#unwritten) this.#queue.add(key);
    if (this.#unwritten.size > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#allWritten = resolve;
      const timer = setTimeout(resolve, timeoutMs);
      await promise;
      clearTimeout(timer);
    }
    this.#count('dropped', this.#unwritten.size);
    this.#queue.shutDown();
    this.#abort.abort();
    await this.#writer;
  }

  #begin(key: string, regarding: KubeObject, facts: EventFacts): void {
    const [lastMs, lastAtMs] = [Date.now(), performance.now()];
    const uid = regarding.metadata.uid ?? '';
    if (!this.#hasRoom(key) || !this.#bucketOf(uid).tryTake(lastAtMs)) {
      this.#count('dropped');
      return;
    }
    const event = this.#describe(regarding, facts, lastMs);
    this.#series.delete(key);
    this.#series.set(key, {
      event,
      count: 1,
      lastMs,
      lastAtMs,
      writtenCount: 0,
      writtenAtMs: Number.NEGATIVE_INFINITY,
    });
    this.#markUnwritten(key);
    this.#forgetOldest();
    this.#queue.add(key);
  }

  #hasRoom(key: string): boolean {
    const ofNamespace = this.#ofNamespace.get(namespaceOfKey(key)) ?? 0;
    return this.#unwritten.size < this.#capacity && ofNamespace < this.#capacity * maxShare;
  }

  #markUnwritten(key: string): void {
    if (this.#unwritten.has(key)) return;
    this.#unwritten.add(key);
    const namespace = namespaceOfKey(key);
    this.#ofNamespace.set(namespace, (this.#ofNamespace.get(namespace) ?? 0) + 1);
  }

  #markWritten(key: string): void {
    if (!this.#unwritten.delete(key)) return;
    const namespace = namespaceOfKey(key);
    const left = (this.#ofNamespace.get(namespace) ?? 0) - 1;
    if (left > 0) this.#ofNamespace.set(namespace, left);
    else this.#ofNamespace.delete(namespace);
  }

  #repeat(key: string, series: Series): void {
    series.count += 1;
    series.lastMs = Date.now();
    series.lastAtMs = performance.now();
    this.#series.delete(key);
    this.#series.set(key, series);
    this.#markUnwritten(key);
    this.#queue.addAfter(key, series.writtenAtMs + this.#repeatMs - series.lastAtMs);
  }

  async #write(): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      const series = this.#series.get(key);
      if (series === undefined || (await this.#writeSeries(key, series))) this.#settle(key);
      this.#queue.done(key);
    }
  }

  /** Returns true if nothing is left to write: the series is stored, or the recorder has given it up. */
  async #writeSeries(key: string, series: Series): Promise<boolean> {
    const { count, lastMs } = series;
    if (count === series.writtenCount) return true;
    const times = { count, lastTimestamp: formatSeconds(lastMs) };
    try {
      if (series.writtenCount === 0) await this.#create(series.event, times);
      else await this.#patch(series.event, times);
    } catch (error) {
      return this.#settleError(key, series, error);
    }
    this.#count(series.writtenCount === 0 ? 'created' : 'repeated');
    series.writtenCount = count;
    series.writtenAtMs = performance.now();
    if (series.count === count) return true;
    this.#queue.forget(key);
    return false;
  }

  async #create(event: EventObject, times: Times): Promise<void> {
    try {
      await this.#options.client.create(events, { ...event, ...times }, { signal: this.#abort.signal });
    } catch (error) {
      // An earlier try has created it, and its answer was lost.
      if (!isAlreadyExists(error)) throw error;
      await this.#patch(event, times);
    }
  }

  async #patch(event: EventObject, times: Times): Promise<void> {
    await this.#options.client.mergePatch(events, event.metadata, times, { signal: this.#abort.signal });
  }

  #settleError(key: string, series: Series, error: unknown): boolean {
    // `stop` has cut the call off and has counted the Event as dropped.
    if (this.#abort.signal.aborted) return true;
    if (isNotFound(error) && series.writtenCount > 0) {
      // The Event's time to live is over: create a new one.
      const { name, ...metadata } = series.event.metadata;
      const renamed = eventName(name.replace(/\.[0-9a-f]+$/, ''));
      series.event = { ...series.event, metadata: { ...metadata, name: renamed } };
      series.writtenCount = 0;
      this.#queue.add(key);
      return false;
    }
    if (isPassing(error) && this.#queue.failures(key) < maxFailures) {
      this.#queue.addRateLimited(key);
      return false;
    }
    // For example 403 in a namespace that is being deleted.
    this.#count('dropped');
    this.#log.debug({ err: error, reason: series.event.reason }, 'The API server refused an Event: dropped.');
    return true;
  }

  #settle(key: string): void {
    // Also for a series that the recorder has dropped meanwhile: its failures must not stay in the queue.
    this.#queue.forget(key);
    this.#markWritten(key);
    if (this.#unwritten.size === 0) this.#allWritten?.();
  }

  #describe(regarding: KubeObject, facts: EventFacts, nowMs: number): EventObject {
    const { name, uid, resourceVersion } = regarding.metadata;
    const namespace = regarding.metadata.namespace;
    const { apiVersion, kind } = regarding;
    return {
      metadata: { name: eventName(name), namespace: namespace ?? 'default' },
      firstTimestamp: formatSeconds(nowMs),
      lastTimestamp: formatSeconds(nowMs),
      count: 1,
      source: { component: this.#options.controller },
      reportingComponent: this.#options.controller,
      reportingInstance: this.#options.instance.slice(0, maxFieldLength),
      action: (facts.action ?? facts.reason).slice(0, maxFieldLength),
      reason: facts.reason.slice(0, maxFieldLength),
      involvedObject: { apiVersion, kind, namespace, name, uid, resourceVersion },
      message: cutToBytes(facts.note, maxNoteBytes),
      type: facts.type,
    };
  }

  #bucketOf(uid: string): TokenBucket {
    const bucket = this.#buckets.get(uid) ?? new TokenBucket(perObject.perSecond, perObject.burst);
    this.#buckets.delete(uid);
    this.#buckets.set(uid, bucket);
    if (this.#buckets.size > this.#capacity) deleteFirst(this.#buckets);
    return bucket;
  }

  #forgetOldest(): void {
    if (this.#series.size <= this.#capacity) return;
    const oldest = oldestOfLargest([...this.#series.keys()]);
    if (oldest !== undefined) this.#series.delete(oldest);
  }

  #count(outcome: 'created' | 'repeated' | 'dropped', howMany = 1): void {
    this.#options.metrics?.events.inc({ outcome }, howMany);
  }
}

/** `<object>.<random>`, the usual form; at most 253 characters. A cut name keeps no dot or dash at its end. */
function eventName(about: string): string {
  return `${about.slice(0, 230).replace(/[^a-z0-9]+$/, '')}.${randomBytes(8).toString('hex')}`;
}

/** Cuts a text between two characters. */
function cutToBytes(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  return new TextDecoder().decode(encoded.subarray(0, bytes - 4)).replace(/\uFFFD+$/, '');
}

/** The first key of the namespace that has most: one with very many ends its own series, and none of another. */
function oldestOfLargest(keys: readonly string[]): string | undefined {
  const byNamespace = Map.groupBy(keys, namespaceOfKey);
  let largest: readonly string[] = [];
  for (const ofOne of byNamespace.values()) if (ofOne.length > largest.length) largest = ofOne;
  return largest[0];
}

function deleteFirst(map: Map<string, unknown>): void {
  const first = map.keys().next();
  if (!first.done) map.delete(first.value);
}

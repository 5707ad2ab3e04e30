// Leader election by a coordination.k8s.io Lease: one leader at a time, a new one soon after the old one is gone.
// It never compares clocks of different machines: a standby counts from the moment at which it saw the last renewal.

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { jitterMs } from './backoff.ts';
import type { KubeClient } from './kube-client.ts';
import { isAlreadyExists, isConflict, isNotFound } from './kube-error.ts';
import { type KubeLog, silentLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import { formatMicroTime, type KubeObject, type KubeResource, type ObjectRef } from './kube-object.ts';

export interface LeaseElectorOptions {
  client: KubeClient;
  lease: ObjectRef;
  /** Unique to the process: see `createLeaseIdentity`. */
  identity: string;
  /** Called when this process becomes the leader. */
  onElected: () => void;
  /** Called when the leadership is lost, but not by `stop`. End the work at once and exit. */
  onLost: () => void;
  tuning?: LeaseTuning;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export interface LeaseTuning {
  /**
   * How long a standby waits after the last renewal that it saw. Default 13,000: with the time between two polls a new
   * leader is there within 15 seconds of the old one's death (docs/contract/kubernetes.md).
   */
  leaseMs?: number;
  /** The leader gives up after this long without a renewal. Less than `leaseMs`. Default 10,000. */
  renewDeadlineMs?: number;
  /** Time between renewals, and twice the time between polls of a standby. Default 2,000. */
  retryMs?: number;
}

interface Lease extends KubeObject {
  spec?: LeaseSpec;
}

interface LeaseSpec {
  holderIdentity?: string;
  leaseDurationSeconds?: number;
  acquireTime?: string;
  renewTime?: string;
  leaseTransitions?: number;
}

const leases: KubeResource<Lease> = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};

/** `<hostname>_<random>`. */
export function createLeaseIdentity(): string {
  return `${hostname()}_${randomUUID()}`;
}

export class LeaseElector {
  readonly #options: LeaseElectorOptions;
  readonly #log: KubeLog;
  readonly #leaseMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryMs: number;

  #run: { abort: AbortController; ended: Promise<void> } | undefined;
  /** The lease as last read or written, and when this process first saw that version. */
  #seen: { lease: Lease; atMs: number } | undefined;
  /** When the last successful renewal began; undefined: not the leader. */
  #renewedAtMs: number | undefined;
  /** A write may be stored even if its answer was lost: `stop` must then look whether this process has the lease. */
  #hasWritten: boolean = false;
  #failures = 0;

  constructor(options: LeaseElectorOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
    this.#leaseMs = options.tuning?.leaseMs ?? 13_000;
    this.#renewDeadlineMs = options.tuning?.renewDeadlineMs ?? 10_000;
    this.#retryMs = options.tuning?.retryMs ?? 2000;
    if (this.#renewDeadlineMs >= this.#leaseMs || this.#retryMs >= this.#renewDeadlineMs) {
      throw new RangeError('The lease timings must satisfy retryMs < renewDeadlineMs < leaseMs.');
    }
    this.#setGauge(0);
  }

  /** True while this process holds the lease and has renewed it in time. */
  get isLeader(): boolean {
    return this.#leftMs > 0;
  }

  /** How long the leader may still lead on its last renewal. */
  get #leftMs(): number {
    if (this.#renewedAtMs === undefined) return 0;
    return Math.max(0, this.#renewedAtMs + this.#renewDeadlineMs - performance.now());
  }

  /** The holder of the lease, as last seen; undefined: nobody, or not yet known. */
  get holder(): string | undefined {
    return this.#seen === undefined ? undefined : holderOf(this.#seen.lease);
  }

  /** Runs for the leadership until `stop`, or until it has won and lost it. Does nothing if it is running. */
  start(): void {
    if (this.#run !== undefined) return;
    const abort = new AbortController();
    this.#run = { abort, ended: this.#elect(abort.signal) };
  }

  /** Stops and releases the lease, so call it after the work has ended. It does not call `onLost`. */
  async stop(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    run.abort.abort();
    await run.ended;
    this.#run = undefined;
    this.#renewedAtMs = undefined;
    this.#setGauge(0);
    if (this.#hasWritten) await this.#release();
  }

  async #elect(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !(await this.#attempt(signal))) {
      await pause(this.#nextPollMs(), signal);
    }
    // If it wins at the moment of `stop`, `stop` releases the lease.
    if (this.#renewedAtMs === undefined || signal.aborted) return;
    this.#setGauge(1);
    this.#log.info({ identity: this.#options.identity }, 'Became the leader.');
    this.#call(this.#options.onElected);
    await this.#keep(signal);
    if (signal.aborted) return;
    this.#renewedAtMs = undefined;
    this.#setGauge(0);
    this.#log.error({ identity: this.#options.identity, holder: this.holder }, 'Lost the leadership.');
    this.#call(this.#options.onLost);
  }

  /** Tries once to become the leader. Returns false on any failure. */
  async #attempt(signal: AbortSignal): Promise<boolean> {
    try {
      const call = { signal, timeoutMs: this.#renewDeadlineMs / 2 };
      const found = await this.#options.client.find(leases, this.#options.lease, call);
      if (found !== undefined) this.#see(found);
      const isFree = found === undefined || this.#freeInMs(found) === 0;
      const startedAtMs = performance.now();
      if (isFree) await this.#write(found, signal, call.timeoutMs);
      if (isFree) this.#renewedAtMs = startedAtMs;
      this.#failures = 0;
      return isFree;
    } catch (error) {
      if (!signal.aborted) this.#logFailure(error);
      return false;
    }
  }

  /** After a conflict another process was faster. Other failures are warned of at once, then about twice a minute. */
  #logFailure(error: unknown): void {
    const isLost = isConflict(error) || isAlreadyExists(error);
    const isLoud = !isLost && this.#failures % 30 === 0;
    if (!isLost) this.#failures += 1;
    this.#log[isLoud ? 'warn' : 'debug'](
      { err: error },
      'Could not read or take the lease; the elector will try again.',
    );
  }

  /** Renews the lease until the signal aborts or the lease is lost. */
  async #keep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(Math.min(this.#retryMs, this.#leftMs), signal);
      const startedAtMs = performance.now();
      const leftMs = this.#leftMs;
      if (signal.aborted || leftMs <= 0) return;
      try {
        await this.#write(this.#seen?.lease, signal, Math.min(leftMs, this.#renewDeadlineMs / 2));
        this.#renewedAtMs = startedAtMs;
      } catch (error) {
        if (signal.aborted) return;
        this.#log.warn({ err: error, leftMs: Math.round(leftMs) }, 'Could not renew the lease.');
        if (isMoved(error) && (await this.#isTaken(signal))) return;
      }
    }
  }

  /** Reads the lease again after a refused write. Returns true if another process has it. */
  async #isTaken(signal: AbortSignal): Promise<boolean> {
    try {
      const call = { signal, timeoutMs: this.#renewDeadlineMs / 2 };
      const found = await this.#options.client.find(leases, this.#options.lease, call);
      if (found === undefined) {
        this.#seen = undefined;
        return false;
      }
      this.#see(found);
      return holderOf(found) !== this.#options.identity;
    } catch {
      // The next renewal or the deadline will show.
      return false;
    }
  }

  /** Creates the lease, or replaces its version `known`: of two writers one gets a conflict. */
  async #write(known: Lease | undefined, signal: AbortSignal, timeoutMs: number): Promise<void> {
    const { client, lease, identity } = this.#options;
    const now = formatMicroTime(Date.now());
    const previous = known?.spec ?? {};
    const isOurs = previous.holderIdentity === identity;
    const spec: LeaseSpec = {
      ...previous,
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(this.#leaseMs / 1000),
      acquireTime: isOurs ? previous.acquireTime : now,
      renewTime: now,
      leaseTransitions: (previous.leaseTransitions ?? 0) + (isOurs || known === undefined ? 0 : 1),
    };
    const call = { signal, timeoutMs };
    this.#hasWritten = true;
    if (known === undefined) this.#see(await client.create(leases, { metadata: { ...lease }, spec }, call));
    else this.#see(await client.replace(leases, { ...known, spec }, call));
  }

  /** Releases the lease, so that the next leader need not wait. A failure only costs time. */
  async #release(): Promise<void> {
    const { client, lease: ref, identity } = this.#options;
    try {
      // Reads again, because a renewal that was cut off may have been stored.
      const lease = await client.find(leases, ref, { timeoutMs: 2000 });
      if (lease === undefined || holderOf(lease) !== identity) return;
      const now = formatMicroTime(Date.now());
      const { holderIdentity: _released, ...rest } = lease.spec ?? {};
      const spec: LeaseSpec = { ...rest, leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
      await client.replace(leases, { ...lease, spec }, { timeoutMs: 2000 });
      this.#log.info({ identity }, 'Released the leadership.');
    } catch (error) {
      this.#log.warn({ err: error }, 'Could not release the lease; it will expire by itself.');
    }
  }

  #see(lease: Lease): void {
    const isKnown = this.#seen?.lease.metadata.resourceVersion === lease.metadata.resourceVersion;
    this.#seen = { lease, atMs: isKnown && this.#seen !== undefined ? this.#seen.atMs : performance.now() };
  }

  /** 0 if nobody else holds the lease or it has expired; else the time until it expires. */
  #freeInMs(lease: Lease): number {
    const holder = holderOf(lease);
    if (holder === undefined || holder === this.#options.identity || this.#seen === undefined) return 0;
    const seconds = lease.spec?.leaseDurationSeconds;
    const durationMs = seconds === undefined ? this.#leaseMs : seconds * 1000;
    return Math.max(0, this.#seen.atMs + durationMs - performance.now());
  }

  /** Half a renewal period, or less if the lease expires before. */
  #nextPollMs(): number {
    const pollMs = jitterMs(this.#retryMs / 2);
    const freeInMs = this.#seen === undefined ? 0 : this.#freeInMs(this.#seen.lease);
    return freeInMs > 0 ? Math.min(pollMs, freeInMs + 1) : pollMs;
  }

  #setGauge(value: 0 | 1): void {
    this.#options.metrics?.leader.set({ name: this.#options.lease.name }, value);
  }

  #call(callback: () => void): void {
    try {
      callback();
    } catch (error) {
      this.#log.error({ err: error }, 'A callback of the leader election threw.');
    }
  }
}

/** A released lease has no holder, or an empty text as holder. */
function holderOf(lease: Lease): string | undefined {
  const holder = lease.spec?.holderIdentity;
  return holder === '' ? undefined : holder;
}

/** The lease is not the version that this process knows: changed, created again or deleted. */
function isMoved(error: unknown): boolean {
  return isConflict(error) || isAlreadyExists(error) || isNotFound(error);
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}

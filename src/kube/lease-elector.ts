// Leader election by a coordination.k8s.io Lease: one leader at a time, a new one soon after the old is gone.

import type { KubeClient } from './kube-client.ts';
import type { KubeLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';
import type { ObjectRef } from './kube-object.ts';

export interface LeaseElectorOptions {
  client: KubeClient;
  lease: ObjectRef;
  /** Different for each process: see `createLeaseIdentity`. */
  identity: string;
  /** Called each time this process becomes the leader. */
  onElected: () => void;
  /** Called when leadership is lost, not after `stop`. End the work at once and exit. */
  onLost: () => void;
  tuning?: LeaseTuning;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export interface LeaseTuning {
  /** How long others wait after the last renewal that they saw. */
  leaseMs?: number;
  /** Without a renewal for this long the leader gives up: less than `leaseMs`. Default 10,000. */
  renewDeadlineMs?: number;
  /** Time between renewals, and twice the time between looks of those who wait. Default 2,000. */
  retryMs?: number;
}

/** `<hostname>_<random>`. */
export function createLeaseIdentity(): string {
  throw new Error('not written yet');
}

export class LeaseElector {
  constructor(options: LeaseElectorOptions) {
    throw new Error(`not written yet: ${options.identity}`);
  }

  /** True while this process holds a lease that was renewed in time. */
  get isLeader(): boolean {
    throw new Error('not written yet');
  }

  /** Who holds the lease, as last seen; undefined: nobody, or not yet known. */
  get holder(): string | undefined {
    throw new Error('not written yet');
  }

  /** Starts to try, and goes on until `stop` or loss. */
  start(): void {
    throw new Error('not written yet');
  }

  /** Ends; a leader releases the lease, so call it after the work has ended. `onLost` is not called. */
  stop(): Promise<void> {
    throw new Error('not written yet');
  }
}

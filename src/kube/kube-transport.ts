// HTTP to the Kubernetes API: connections, credentials, time limits, errors. Knows no kinds.

import type { KubeConfig } from '@kubernetes/client-node';
import type { KubeLog } from './kube-log.ts';
import type { KubeMetrics } from './kube-metrics.ts';

export interface KubeTransportOptions {
  /** Read again after a 401, so that rotated credentials are taken up: `() => loadKubeConfig(path)`. */
  loadConfig: () => KubeConfig;
  /** `name/version`; its first part is the default field manager. */
  userAgent: string;
  /** Whole time of a call that names none, milliseconds. Default 10,000. */
  requestTimeoutMs?: number;
  metrics?: KubeMetrics;
  log?: KubeLog;
}

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path under the cluster's address: `/api/v1/nodes`. */
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: object;
  /** Default `application/json`. */
  contentType?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
}

export class KubeTransport {
  constructor(options: KubeTransportOptions) {
    throw new Error(`not written yet: ${options.userAgent}`);
  }

  /** The parsed JSON of a 2xx answer. Throws KubeError; an aborted `signal` throws its reason. */
  request(request: KubeRequest): Promise<unknown> {
    throw new Error(`not written yet: ${request.path}`);
  }

  /** The lines of an endless 2xx answer, until it ends. Throws as `request`. No time limit but `signal`. */
  streamLines(request: KubeRequest): AsyncGenerator<string> {
    throw new Error(`not written yet: ${request.path}`);
  }

  /** Ends all connections. */
  close(): Promise<void> {
    throw new Error('not written yet');
  }
}

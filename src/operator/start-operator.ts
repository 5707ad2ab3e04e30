// The role `operator`: connects, elects a leader, works while it leads, and shuts down in order.
import { hostname } from 'node:os';
import { RestClient } from '../client/rest-client.ts';
import { releaseOf } from '../contract/crd/custom-resources.ts';
import { EventRecorder, type EventTuning } from '../kube/event-recorder.ts';
import { KubeClient } from '../kube/kube-client.ts';
import { createKubeMetrics } from '../kube/kube-metrics.ts';
import { KubeTransport } from '../kube/kube-transport.ts';
import { createLeaseIdentity, LeaseElector } from '../kube/lease-elector.ts';
import { loadKubeConfig } from '../kube/load-kube-config.ts';
import type { Running } from '../telemetry/run-until-signal.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { SharedProject } from './known/shared-projects.ts';
import { registerMonitorMetrics } from './monitor-metrics.ts';
import type { Orphans } from './operator-context.ts';
import { createOperatorMetrics } from './operator-metrics.ts';
import { OperatorRuntime, type RuntimeOptions } from './operator-runtime.ts';

/** As `src/config/operator-config.ts` reads it. */
export interface OperatorSettings {
  apiUrl: string;
  apiCaFile?: string | undefined;
  tokenFile: string;
  kubeconfig?: string | undefined;
  watchNamespaces: readonly string[];
  defaultCallbackNamespaces: readonly string[];
  sharedProjects?: readonly SharedProject[];
  namespace: string;
  leaseName: string;
  lastBeatPeriodSeconds: number;
  orphans: Orphans;
  /** 0: no Monitor has metrics. */
  monitorMetricsMax: number;
  workloads: boolean;
  workloadLogs: boolean;
}

export interface StartOptions {
  /** Called when the lease was lost and the work has stopped. Default: the process exits with code 1. */
  onLost?: () => void;
  /** About how long after a pass an object is reconciled again. Default 40,000. */
  resyncMs?: number;
}

const RESYNC_MS = 40_000;
const REFUSAL_RETRY_MS = 600_000;
const ORPHAN_ARCHIVE_AFTER_MS = 3_600_000;
const BEAT_WRITES_PER_SECOND = 50;
const STOP_GRACE_MS = 8000;
/** Another leader may start 3 seconds after this one knows of its loss: less than that. */
const LOST_GRACE_MS = 500;

/**
 * Starts the role and returns, even if the cluster and the API are away. Throws if the kubeconfig is broken. A lost lease
 * ends the work and then the process.
 */
export async function startOperator(
  settings: OperatorSettings,
  telemetry: Telemetry,
  options: StartOptions = {},
): Promise<Running> {
  const { log, registry, readiness } = telemetry;
  const kubeMetrics = createKubeMetrics(registry);
  const metrics = createOperatorMetrics(registry);
  const loadConfig = () => loadKubeConfig(settings.kubeconfig);
  loadConfig(); // a broken kubeconfig fails the start
  const transport = new KubeTransport({
    loadConfig,
    userAgent: 'beatkeeper-operator/1',
    metrics: kubeMetrics,
  });
  const api = new RestClient({
    apiUrl: settings.apiUrl,
    caFile: settings.apiCaFile,
    tokenFile: settings.tokenFile,
    onCall: ({ operation, code, seconds }) => {
      metrics.apiRequests.inc({ operation, code });
      metrics.apiSeconds.observe({ operation }, seconds);
    },
  });
  const { defaultCallbackNamespaces: stated, namespace, watchNamespaces, sharedProjects } = settings;
  const lease = { namespace, name: settings.leaseName };
  const { kube, runtime, close } = composeOperator({
    ...{ transport, api, log, metrics, kubeMetrics, watchNamespaces, sharedProjects },
    ...{ watchesWorkloads: settings.workloads, lease },
    tuning: {
      resyncMs: options.resyncMs ?? RESYNC_MS,
      lastBeatPeriodMs: settings.lastBeatPeriodSeconds * 1000,
      beatWritesPerSecond: BEAT_WRITES_PER_SECOND,
      defaultCallbackNamespaces: stated.length > 0 ? stated : [namespace],
      refusalRetryMs: REFUSAL_RETRY_MS,
      release: releaseOf(lease),
      orphans: settings.orphans,
      orphanArchiveAfterMs: ORPHAN_ARCHIVE_AFTER_MS,
      workloadLogs: settings.workloadLogs,
    },
  });
  const { monitorMetricsMax: max } = settings;
  if (max > 0) registerMonitorMetrics(registry, { max, list: () => runtime.followedMonitors });
  const exit = options.onLost ?? (() => process.exit(1));
  const elector = new LeaseElector({
    client: kube,
    lease,
    identity: createLeaseIdentity(),
    onElected: () => void runtime.startWork(),
    onLost: () => {
      log.error({}, 'The lease was lost: the operator ends.');
      void runtime.stopWork(LOST_GRACE_MS).then(exit);
    },
    metrics: kubeMetrics,
    log,
  });
  readiness.addCheck('caches', async () => (runtime.hasSynced ? undefined : 'The caches are not full yet.'));
  const readWatches = async () => {
    const { watchFailure: why } = runtime;
    return why && `Cannot watch the cluster: changes of objects are not seen until it answers. ${why}`;
  };
  readiness.addCheck('watches', readWatches, { isAdvice: true });
  const readNamespaces = async () => {
    const names = runtime.degradedNamespaces.join(', ');
    return names === '' ? undefined : `Cannot read ${names}: the namespace or a right in it is gone.`;
  };
  readiness.addCheck('namespaces', readNamespaces, { isAdvice: true });
  // Without it no object is worked on: an installation waits, and an upgrade stops, until the API takes the token.
  readiness.addCheck('session', () => runtime.signIn.findFault(settings.tokenFile));
  readiness.addVitalCheck('watches', async () =>
    runtime.isHearing ? undefined : 'A watch receives nothing.',
  );
  let isEnding = false;
  // Standbys keep their caches full: without them, none can lead.
  runtime.startCaches().then(
    () => (isEnding ? undefined : elector.start()),
    () => log.debug({}, 'Ended before the caches were full.'),
  );
  return {
    async close() {
      isEnding = true;
      await runtime.stopWork(STOP_GRACE_MS);
      // The lease comes first, so that the next leader does not wait for the rest.
      await elector.stop();
      await close();
    },
  };
}

export interface OperatorParts extends Omit<RuntimeOptions, 'kube' | 'events'> {
  transport: KubeTransport;
  eventTuning?: EventTuning;
}

export interface ComposedOperator {
  kube: KubeClient;
  runtime: OperatorRuntime;
  /** Ends the caches, the Events and both connections; call it after `runtime.stopWork`. */
  close(): Promise<void>;
}

/** The operator without its process and its lease, on the connections of the caller. */
export function composeOperator({ transport, eventTuning, ...parts }: OperatorParts): ComposedOperator {
  const kube = new KubeClient(transport);
  const events = new EventRecorder({
    client: kube,
    controller: 'beatkeeper.dev/operator',
    instance: hostname(),
    tuning: eventTuning,
    metrics: parts.kubeMetrics,
    log: parts.log,
  });
  const runtime = new OperatorRuntime({ ...parts, kube, events });
  return {
    ...{ kube, runtime },
    async close() {
      await runtime.stop();
      await events.stop();
      await parts.api.close();
      await transport.close();
    },
  };
}

// The kinds that the operator reconciles. A new kind is a row in CUSTOM_RESOURCES, a folder, and a line here.
import type { CustomKind } from '../../contract/crd/custom-resources.ts';
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import { KindWorker } from '../kind-worker.ts';
import type { OperatorContext } from '../operator-context.ts';
import { CallbackKind } from './callback/callback-kind.ts';
import { MonitorKind } from './monitor/monitor-kind.ts';

/** A worker of any kind. */
export type AnyWorker = Pick<KindWorker<never, never, never>, keyof KindWorker<never, never, never>>;

/** In the order in which they start: Monitors refer to Callbacks. */
export function createWorkers(
  context: OperatorContext,
  kubeMetrics?: KubeMetrics,
): Readonly<Record<CustomKind, AnyWorker>> {
  const callbacks = new CallbackKind(context);
  const monitors = new MonitorKind(context, callbacks.cache);
  return {
    Callback: new KindWorker(context, callbacks, kubeMetrics),
    Monitor: new KindWorker(context, monitors, kubeMetrics),
  };
}

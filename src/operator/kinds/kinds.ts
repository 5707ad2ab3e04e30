// The kinds that the operator reconciles. A new kind is a row in CUSTOM_RESOURCES, a folder, and a line here.
import type { CustomKind } from '../../contract/crd/custom-resources.ts';
import type { KubeMetrics } from '../../kube/kube-metrics.ts';
import { KindWorker } from '../kind-worker.ts';
import type { ObjectCache } from '../known/object-cache.ts';
import type { OperatorContext } from '../operator-context.ts';
import { Reconciler } from '../pass/reconcile.ts';
import { CallbackKind } from './callback/callback-kind.ts';
import { MonitorKind } from './monitor/monitor-kind.ts';
import type { MonitorObject } from './monitor/monitor-object.ts';
import { RuleKind } from './rule/rule-kind.ts';
import { newRuleCache } from './rule/rule-object.ts';

/** A worker of any kind. */
export type AnyWorker = Pick<KindWorker<never>, keyof KindWorker<never>>;

export interface Workers {
  /** In the order in which they start: Monitors refer to Callbacks. */
  workers: Readonly<Record<CustomKind, AnyWorker>>;
  monitorCache: ObjectCache<MonitorObject>;
}

export function createWorkers(context: OperatorContext, kubeMetrics?: KubeMetrics): Workers {
  const ruleCache = newRuleCache(context.settings.release);
  const callbacks = new CallbackKind(context);
  const monitors = new MonitorKind(context, callbacks.cache, ruleCache);
  const rules = new RuleKind(context, ruleCache, monitors.cache);
  const workers = {
    Callback: new KindWorker(context, callbacks, new Reconciler(context, callbacks).reconcile, kubeMetrics),
    Monitor: new KindWorker(context, monitors, new Reconciler(context, monitors).reconcile, kubeMetrics),
    Rule: new KindWorker(context, rules, rules.reconcile, kubeMetrics),
  };
  return { workers, monitorCache: monitors.cache };
}

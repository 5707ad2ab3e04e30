// The kind Rule. The Monitors' own passes write measurements, so that each monitor has one writer; a pass over a Rule says how
// far they are. A Rule has no finalizer: what it gave goes with the passes of the Monitors, also when no operator saw the
// Rule go, because their status says which Rule gave what.
import { MANAGED_BY } from '../../../contract/crd/custom-resources.ts';
import { RULE_PENDING } from '../../../contract/crd/rule-resource.ts';
import { applyStatus, isSameStatus } from '../../../kube/apply-status.ts';
import { findCondition, removeCondition, setCondition } from '../../../kube/conditions.ts';
import type { Reconcile, ReconcileResult } from '../../../kube/controller.ts';
import type { WorkedKind } from '../../kind-worker.ts';
import { newestOf, type ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import type { Enqueue } from '../../pass/kind.ts';
import { ObjectEvents } from '../../pass/object-events.ts';
import { leaveToOther } from '../../pass/other-release.ts';
import { otherReleaseOf } from '../../pass/release.ts';
import { syncedCondition, withStalled } from '../../pass/status.ts';
import { FIELD_MANAGER } from '../../resources/names.ts';
import type { MonitorObject } from '../monitor/monitor-object.ts';
import { ApplyRollout } from './apply/apply-rollout.ts';
import { ReplayRollout } from './replay/replay-rollout.ts';
import { type Rollout, RULE_EVENTS, type RuleFindings } from './rollout.ts';
import { RULES, type RuleObject, type RuleStatusFields } from './rule-object.ts';
import { watchRules } from './rule-watches.ts';

export class RuleKind implements WorkedKind<RuleObject> {
  readonly resource = RULES;
  readonly concurrency = 2;
  readonly cache: ObjectCache<RuleObject>;
  readonly events: ObjectEvents<keyof typeof RULE_EVENTS>;
  readonly #context: OperatorContext;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #rollouts: Readonly<Record<RuleObject['spec']['rollout'], Rollout>>;

  constructor(
    context: OperatorContext,
    cache: ObjectCache<RuleObject>,
    monitors: ObjectCache<MonitorObject>,
  ) {
    this.#context = context;
    this.cache = cache;
    this.#monitors = monitors;
    this.events = new ObjectEvents(context, RULE_EVENTS);
    this.#rollouts = {
      Apply: new ApplyRollout(context, { rules: cache, monitors }),
      Replay: new ReplayRollout(context, { rules: cache, monitors }),
    };
  }

  watch(enqueue: Enqueue<RuleObject>): void {
    watchRules({ rules: this.cache, monitors: this.#monitors }, enqueue);
    for (const rollout of Object.values(this.#rollouts)) rollout.watch?.(enqueue);
  }

  async stop(): Promise<unknown> {
    return await Promise.all(Object.values(this.#rollouts).map((rollout) => rollout.stop?.()));
  }

  /** One pass over one Rule. Level-based: the cause of the call does not matter. */
  readonly reconcile: Reconcile = async (key, { signal }) => {
    const cached = this.cache.get(key);
    if (cached === undefined) return undefined;
    const memory = this.cache.memoryOf(cached);
    const object = newestOf(cached, memory);
    const other = otherReleaseOf(object, this.#context.settings.release);
    if (other !== undefined) return await leaveToOther(this.#context, this, { object, memory }, other);
    if (object.metadata.deletionTimestamp !== undefined) return undefined;
    const claimed = await this.#claim(object);
    memory.written = claimed;
    const findings = await this.#rollouts[claimed.spec.rollout].run(claimed, signal);
    memory.written = await this.#write(claimed, findings, signal);
    return this.#next(findings);
  };

  #next({ dueInMs = Number.POSITIVE_INFINITY }: RuleFindings): ReconcileResult {
    const resyncMs = this.cache.resyncAfterMs(this.#context.settings.resyncMs);
    return { requeueAfterMs: Math.min(dueInMs, resyncMs), priority: 'low' };
  }

  /** Names the release, so that no other one writes the status. */
  async #claim(object: RuleObject): Promise<RuleObject> {
    const { release } = this.#context.settings;
    const { uid, resourceVersion, annotations } = object.metadata;
    if (annotations?.[MANAGED_BY] === release) return object;
    const metadata = { uid, resourceVersion, annotations: { [MANAGED_BY]: release } };
    return await this.#context.kube.mergePatch(RULES, object.metadata, { metadata });
  }

  /** Writes the status if it differs, and then records the Events. Throws KubeError. */
  async #write(object: RuleObject, findings: RuleFindings, signal: AbortSignal): Promise<RuleObject> {
    const status = ruleStatusOf(object, findings, Date.now());
    if (isSameStatus(object.status, status)) return object;
    const apply = { object, status, fieldManager: FIELD_MANAGER, signal };
    const stored = (await applyStatus(this.#context.kube, RULES, apply)) ?? object;
    this.#context.metrics.statusWrites.inc({ kind: RULES.kind });
    for (const { reason, note } of findings.events ?? []) this.events.record(object, reason, note);
    return stored;
  }
}

/** The whole status from what a pass has found out. Pure. */
export function ruleStatusOf(
  { metadata, status: previous = {} }: RuleObject,
  { fields, conditions, removed = [] }: RuleFindings,
  nowMs: number,
): RuleStatusFields {
  const moment = { generation: metadata.generation, nowMs };
  const kept = removed.reduce(removeCondition, previous.conditions ?? [...RULE_PENDING]);
  const isSynced = conditions.some(({ type }) => type === 'Synced');
  const given = isSynced ? conditions : [syncedCondition(), ...conditions];
  const all = given.reduce((some, one) => setCondition(some, one, moment), kept);
  const ready = findCondition(all, 'Ready');
  return {
    ...previous,
    // Of an earlier rollout: what stands there is about the present spec.
    replay: undefined,
    ...fields,
    observedGeneration: metadata.generation,
    conditions: withStalled(all, ready, moment),
  };
}

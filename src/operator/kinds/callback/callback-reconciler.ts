// Reconciles one Callback: what is there, what it wants, the difference, the status. There is no feed of endpoints:
// each is read again about twice a minute.

import { type ApiProblem, isTaken } from '../../../client/api-problem.ts';
import { applyStatus, isSameStatus } from '../../../kube/apply-status.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { ReconcileResult } from '../../../kube/controller.ts';
import type { ObjectStore } from '../../../kube/object-store.ts';
import { type ObjectMemories, refusedFault } from '../../known/object-memory.ts';
import { type OperatorContext, readProjectName, resyncAfterMs } from '../../operator-context.ts';
import { Blocked } from '../../pass/blocked.ts';
import { claimObject } from '../../pass/claim-object.ts';
import { requireHeld } from '../../pass/conflicting-claims.ts';
import { desiredHashOf } from '../../pass/desired-hash.ts';
import { readSecretValue } from '../../pass/owned-secret.ts';
import type { ObjectKind, ObjectPass } from '../../pass/reconcile-object.ts';
import { type FaultDisplay, faultConditions } from '../../pass/settle-fault.ts';
import { contentHash } from '../../resources/content-hash.ts';
import { endpointIdOf } from '../../resources/identity.ts';
import { ANNOTATION, FIELD_MANAGER } from '../../resources/names.ts';
import { problemText, withoutAddress } from '../../resources/problem-text.ts';
import { type Fault, syncedCondition } from '../monitor/monitor-conditions.ts';
import { finalizeCallback } from './callback-deletion.ts';
import { CALLBACKS, type CallbackObject } from './callback-object.ts';
import { callbackReady, callbackStatusOf } from './callback-status.ts';
import { type CallbackPass, syncCallback } from './callback-sync.ts';
import { wantedCallback } from './wanted-callback.ts';

export class CallbackReconciler implements ObjectKind<CallbackObject, CallbackPass> {
  readonly store: ObjectStore<CallbackObject>;
  readonly memories: ObjectMemories<CallbackObject>;
  readonly #context: OperatorContext;

  constructor(context: OperatorContext) {
    this.#context = context;
    this.store = context.callbacks;
    this.memories = context.callbackMemories;
  }

  begin(pass: ObjectPass<CallbackObject>): CallbackPass {
    return { ...pass, fields: {}, dueInMs: Number.POSITIVE_INFINITY };
  }

  async finalize({ object, signal }: CallbackPass): Promise<void> {
    await finalizeCallback(this.#context, object, signal);
  }

  async run(pass: CallbackPass): Promise<ReconcileResult> {
    const context = this.#context;
    const endpointId = endpointIdOf(pass.object);
    const claim = { store: this.store, object: pass.object, id: endpointId };
    requireHeld(context, claim, ANNOTATION.endpointId);
    const url = await this.#url(pass);
    const projectId = await context.projects.ensure(await readProjectName(context, pass.object));
    const wanted = wantedCallback(pass.object, { endpointId, projectId, url });
    pass.desiredHash = desiredHashOf(pass.object, contentHash([wanted.hash, endpointId]));
    const fault = refusedFault(pass.memory, pass.desiredHash, performance.now());
    if (fault !== undefined) {
      await this.#write(pass, faultConditions(fault));
      return { requeueAfterMs: this.#resyncMs };
    }
    const mark = { annotation: ANNOTATION.endpointId, id: endpointId };
    pass.object = await claimObject(context.kube, CALLBACKS, pass.object, mark);
    await syncCallback(context, pass, wanted);
    pass.memory.refusal = undefined;
    const { endpoint } = pass;
    if (endpoint === undefined) throw new RangeError('The pass has read no endpoint.');
    await this.#write(pass, [syncedCondition(), callbackReady(endpoint)]);
    return { requeueAfterMs: Math.min(this.#resyncMs, pass.dueInMs) };
  }

  /** The address of a webhook: from the spec, or from the Secret that it names. */
  async #url(pass: CallbackPass): Promise<string | undefined> {
    const { spec, metadata } = pass.object;
    if (spec.urlSecretRef === undefined) return spec.url;
    const { name, key } = spec.urlSecretRef;
    const url = await readSecretValue(this.#context.kube, { namespace: metadata.namespace, name, key });
    if (url === undefined || url === '') {
      throw new Blocked('SecretNotFound', `The Secret ${name} with the key ${key} is not there yet.`, 10_000);
    }
    pass.hiddenUrl = url;
    return url;
  }

  async #write(pass: CallbackPass, conditions: readonly ConditionFacts[], isObserved = true): Promise<void> {
    const { object, endpoint, fields, rank } = pass;
    const status = callbackStatusOf({
      ...{ object, endpoint, fields, conditions, rank, isObserved },
      nowMs: Date.now(),
    });
    if (isSameStatus(object.status, status)) return;
    const apply = { object, status, fieldManager: FIELD_MANAGER, signal: pass.signal };
    pass.object = (await applyStatus(this.#context.kube, CALLBACKS, apply)) ?? object;
    this.#context.metrics.statusWrites.inc({ kind: 'Callback' });
  }

  display(pass: CallbackPass): FaultDisplay {
    const projectId = pass.fields.projectId ?? pass.object.status?.projectId;
    return {
      ...{ projectId, resyncMs: this.#resyncMs },
      explain: (problem) => explain(problem, pass.hiddenUrl),
      show: (conditions, isObserved) => this.#write(pass, conditions, isObserved),
    };
  }

  get #resyncMs(): number {
    return resyncAfterMs(this.#context, this.#context.callbacks.size);
  }
}

function explain(problem: ApiProblem, hiddenUrl: string | undefined): Fault {
  const reason = isTaken(problem, 'alias') ? 'AliasConflict' : 'Refused';
  return { reason, message: withoutAddress(problemText(problem), hiddenUrl) };
}

/** What of a Callback decides where alerts of Monitors lead: a change of the rest concerns no Monitor. */
export function isSameTarget(before: CallbackObject | undefined, after: CallbackObject): boolean {
  const [a, b] = [before?.status, after.status];
  return (
    before !== undefined &&
    a?.alias === b?.alias &&
    a?.endpointId === b?.endpointId &&
    a?.lifecycle === b?.lifecycle &&
    a?.isOrganizationDefault === b?.isOrganizationDefault &&
    before.metadata.deletionTimestamp === after.metadata.deletionTimestamp
  );
}

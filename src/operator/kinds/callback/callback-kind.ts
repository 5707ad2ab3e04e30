// The hooks of the kind Callback: one endpoint at the API for each object, and its signing secret in a Secret. There is no
// feed of endpoints: each is read again about twice a minute.
import { type ApiProblem, isTaken } from '../../../client/api-problem.ts';
import { CALLBACK_PENDING } from '../../../contract/crd/callback-resource.ts';
import { type ConditionFacts, findCondition } from '../../../kube/conditions.ts';
import type { StoreIndex } from '../../../kube/object-store.ts';
import { ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { destinationFault, shownDestinationFault } from '../../pass/destination.ts';
import { nextOwnId } from '../../pass/identity.ts';
import type {
  Change,
  Claimant,
  Creation,
  DesireFacts,
  Enqueue,
  ExternalRef,
  Kind,
  KindStatus,
  KnownOrigin,
} from '../../pass/kind.ts';
import { Blocked, type Fault } from '../../pass/object.ts';
import { ObjectEvents } from '../../pass/object-events.ts';
import { newOrigin, objectOrigin } from '../../pass/origin.ts';
import { readSecretValue } from '../../pass/owned-secret.ts';
import { problemText, withoutAddress } from '../../resources/problem-text.ts';
import { CALLBACK_IDENTITY, CALLBACKS, type CallbackObject } from './callback-object.ts';
import { callbackReady, callbackStatusOf } from './callback-status.ts';
import { watchCallbacks } from './callback-watches.ts';
import type { CallbackPass, CallbackWork } from './callback-work.ts';
import {
  createCallbackBodyOf,
  type DesiredCallback,
  desiredCallback,
  planCallback,
} from './desired-callback.ts';
import { ExternalCallback } from './external-callback.ts';
import { clearDefault, type DefaultContext, ensureDefault } from './organization-default.ts';
import { SIGNING_SECRET } from './signing-secret.ts';

const INDEXES: Record<string, StoreIndex<CallbackObject>> = {
  organizationDefault: ({ spec }) => (spec.organizationDefault ? ['true'] : []),
  waitsForAlias: ({ status }) =>
    findCondition(status?.conditions, 'Ready')?.reason === 'AliasConflict' ? ['true'] : [],
};

export class CallbackKind implements Kind<CallbackObject, DesiredCallback, ExternalCallback> {
  readonly resource = CALLBACKS;
  readonly identity = CALLBACK_IDENTITY;
  readonly keptFields = ['lastRotation'];
  readonly initialConditions = CALLBACK_PENDING;
  readonly concurrency = 4;
  readonly secret = SIGNING_SECRET;
  readonly events: ObjectEvents;
  /** With the indexes `organizationDefault` (`true`: requested) and `waitsForAlias` (`true`: another endpoint has it). */
  readonly cache: ObjectCache<CallbackObject>;
  readonly #context: DefaultContext & OperatorContext;
  #enqueue: Enqueue<CallbackObject> = () => undefined;

  constructor(context: OperatorContext) {
    this.cache = new ObjectCache(CALLBACK_IDENTITY, context.settings.release, INDEXES);
    this.#context = { ...context, callbacks: this.cache };
    this.events = new ObjectEvents(context, {});
  }

  watch(enqueue: Enqueue<CallbackObject>): void {
    this.#enqueue = enqueue;
    watchCallbacks(this.cache, this.#context.settings, enqueue);
  }

  async desire(object: CallbackObject, { id, projectId }: DesireFacts): Promise<DesiredCallback> {
    const url = await this.#url(object);
    return desiredCallback(object, { id, projectId: await projectId(), url });
  }

  connect(ref: ExternalRef): ExternalCallback {
    return new ExternalCallback(this.#context.api, ref);
  }

  async observe(external: ExternalCallback): Promise<boolean> {
    return (await external.read()) !== undefined;
  }

  async create({ object, desired, external }: CallbackWork, { hasOrigin }: Creation): Promise<void> {
    const origin = hasOrigin ? newOrigin('Callback', object, desired) : undefined;
    await external.create({ ...createCallbackBodyOf(desired), origin });
  }

  originOf({ endpoint }: ExternalCallback): KnownOrigin | undefined {
    return endpoint.origin;
  }

  async setOrigin(external: ExternalCallback, claimant: Claimant<CallbackObject> | undefined): Promise<void> {
    await external.setOrigin(claimant === undefined ? null : objectOrigin('Callback', claimant));
  }

  /** An endpoint of another kind has the alias: `update` says what to do. */
  canTakeOver(): boolean {
    return true;
  }

  /** The API removed an endpoint of this id before, and never accepts the id again. */
  nextId(error: unknown, { object, desired }: CallbackWork): string | undefined {
    return isTaken(error, 'endpointId') ? nextOwnId(this.identity, object, desired.id) : undefined;
  }

  async update({ desired, external, ownedBefore }: CallbackWork, { isChanged }: Change): Promise<string[]> {
    const { id, kind } = external.endpoint;
    if (kind !== desired.kind) {
      const message = `The endpoint ${id} is of the kind ${kind}, which cannot change: remove it through the API, or give this object another name.`;
      throw new Blocked('Refused', message, 600_000);
    }
    const facts = { endpoint: external.endpoint, owned: ownedBefore, isChanged };
    const { patch, fields } = planCallback(desired, facts);
    if (patch !== undefined) await external.update(patch);
    return fields;
  }

  async complete(work: CallbackWork): Promise<void> {
    const { object, external, memory } = work;
    const { lastRotation } = external;
    memory.alias = external.endpoint.alias;
    memory.isDefault = external.endpoint.isOrganizationDefault;
    if (lastRotation !== undefined) work.fields = { ...work.fields, lastRotation };
    const { rank, isRestored } = await ensureDefault(this.#context, work);
    external.rank = rank;
    if (isRestored)
      this.events.recordDrift(object, 'Restored what was changed through the API: organizationDefault.');
  }

  async delete(external: ExternalCallback, object: CallbackObject): Promise<void> {
    const { id, isOrganizationDefault } = external.endpoint;
    if (isOrganizationDefault) {
      const ref = { projectId: external.projectId, endpointId: id };
      await clearDefault(this.#context, object, ref);
    }
    await external.remove();
    this.events.record(object, 'Deleted', `Deleted the callback endpoint ${id}.`);
  }

  async conditions(work: CallbackWork): Promise<ConditionFacts[]> {
    const { endpoint } = work.external;
    const ready = callbackReady(work.object, endpoint);
    // Where nothing is sent, it does not matter what the installation thinks of the address.
    const fault = endpoint.lifecycle === 'active' ? this.#destinationFault(work) : undefined;
    work.memory.isDestinationJudged ??= true;
    return [fault === undefined ? ready : { type: 'Ready', status: 'False', ...fault }];
  }

  statusOf({ object, external }: CallbackPass): KindStatus {
    return callbackStatusOf(object, external?.found, external?.rank);
  }

  explain(problem: ApiProblem, { object, desired }: CallbackPass): Fault {
    const reason = isTaken(problem, 'alias') ? 'AliasConflict' : 'Refused';
    // The address in a Secret must not appear in a condition.
    const hidden = object.spec.urlSecretRef && desired?.url;
    return { reason, message: withoutAddress(problemText(problem), hidden) };
  }

  #destinationFault(work: CallbackWork): Fault | undefined {
    const { object, desired } = work;
    const { url, id: endpointId, projectId } = desired;
    if (url === undefined) return undefined;
    const fault = destinationFault(work, {
      ...{ projectId, endpointId, url },
      periodMs: this.#context.settings.refusalRetryMs,
      checks: this.#context.destinationChecks,
      changed: () => this.#enqueue([object]),
    });
    if (fault !== undefined && shownDestinationFault(object) === undefined)
      this.events.record(object, 'Refused', fault.message);
    return fault;
  }

  /** The address of a webhook, from the spec or from the Secret that the spec names. */
  async #url({ spec, metadata }: CallbackObject): Promise<string | undefined> {
    if (spec.urlSecretRef === undefined) return spec.url;
    const { name, key } = spec.urlSecretRef;
    const url = await readSecretValue(this.#context.kube, { namespace: metadata.namespace, name, key });
    if (url === undefined || url === '') {
      throw new Blocked(
        'SecretNotFound',
        `There is no Secret ${name} with the key ${key}: create it, or correct urlSecretRef.`,
        10_000,
      );
    }
    return url;
  }
}

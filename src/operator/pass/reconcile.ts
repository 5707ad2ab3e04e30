// The one reconcile pass of every kind: desire, claim, leave former, announce, observe, create, origin, update, secret,
// record, status; and finalize. A kind brings the hooks of the steps (kind.ts). A pass may stop after any step; the next pass
// starts again, and each step accepts that it was done before.
import { isDeepStrictEqual } from 'node:util';
import { ApiProblem } from '../../client/api-problem.ts';
import { FINALIZER, MANAGED_BY } from '../../contract/crd/custom-resources.ts';
import { type ConditionFacts, findCondition } from '../../kube/conditions.ts';
import type { Reconcile, ReconcileResult } from '../../kube/controller.ts';
import { removeFinalizer } from '../../kube/finalizers.ts';
import { isForbidden, isInvalid } from '../../kube/kube-error.ts';
import { hasFinalizer } from '../../kube/kube-object.ts';
import { newestOf, refusedFault } from '../known/object-cache.ts';
import { readProjectName } from '../known/project-directory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { ANNOTATION } from '../resources/names.ts';
import { desiredHashOf, formatSpecHash, parseSpecHash } from './desired-hash.ts';
import { settleFault } from './faults.ts';
import { type Claim, hasHad, isOwnId, requireHeld, statusIdOf } from './identity.ts';
import type { Change, Desired, Kind, Pass, Work } from './kind.ts';
import { formerOf, leaveAll, leaveFormer } from './leave.ts';
import type { ReconciledObject } from './object.ts';
import { findClaimedId, findEarlier, originHolderOf, resolveHolders, settleOrigin } from './origin.ts';
import { leaveToOther } from './other-release.ts';
import { deleteFormerSecret, deleteSecrets, ensureSecret, isSecretIntact } from './owned-secret.ts';
import { otherReleaseOf } from './release.ts';
import { announceFields, faultConditions, syncedCondition, writeStatus } from './status.ts';

/** How this pass found or created the external resource. */
interface Found extends Change {
  isCreated: boolean;
  /** The id in the status before this pass. */
  formerId: string | undefined;
  /** An object of this name had it before, the same one or an earlier one. */
  isKnown: boolean;
}

export class Reconciler<O extends ReconciledObject, D extends Desired, E> {
  readonly #context: OperatorContext;
  readonly #kind: Kind<O, D, E>;

  constructor(context: OperatorContext, kind: Kind<O, D, E>) {
    this.#context = context;
    this.#kind = kind;
  }

  /** One pass over one object. Level-based: the cause of the call does not matter. */
  readonly reconcile: Reconcile = async (key, { signal, failures }) => {
    const { cache, events } = this.#kind;
    const cached = cache.get(key);
    if (cached === undefined) return undefined;
    const memory = cache.memoryOf(cached);
    const object = newestOf(cached, memory);
    const other = otherReleaseOf(object, this.#context.settings.release);
    if (other !== undefined) return await leaveToOther(this.#context, this.#kind, { object, memory }, other);
    const pass: Pass<O, D, E> = { object, memory, signal, fields: {}, dueInMs: Number.POSITIVE_INFINITY };
    try {
      if (object.metadata.deletionTimestamp === undefined) return await this.#run(pass);
      await this.#finalize(pass);
      return undefined;
    } catch (error) {
      const display = {
        ...{ events, resyncMs: this.#resyncMs },
        explain: (problem: ApiProblem) => this.#kind.explain(problem, pass),
        show: (conditions: readonly ConditionFacts[], isObserved: boolean) =>
          writeStatus(this.#context, this.#kind, pass, { conditions, isObserved }),
      };
      return await settleFault(this.#context, pass, display, { error, failures });
    } finally {
      memory.written = pass.object;
    }
  };

  async #run(pass: Pass<O, D, E>): Promise<ReconcileResult> {
    const work = await this.#desire(pass);
    const refused = refusedFault(work.memory, work.desiredHash, performance.now());
    if (refused !== undefined) return await this.#finish(work, faultConditions(refused));
    if (!(await this.#isUnchanged(work))) await this.#sync(work);
    const { id, projectId } = work.desired;
    work.memory.held = { id, projectId, atMs: performance.now() };
    return await this.#finish(work, [syncedCondition(), ...(await this.#kind.conditions(work))]);
  }

  /** The steps from the claim to the Events. */
  async #sync(work: Work<O, D, E>): Promise<void> {
    const context = this.#context;
    const kind = this.#kind;
    const isNew = this.#isNew(work.object);
    await this.#claim(work, work.desired.id);
    await this.#leaveFormer(work);
    const formerId = statusIdOf(kind.identity, work.object);
    const isCreated = isNew ? await this.#createNew(work) : await this.#createMissing(work, formerId);
    const { id, projectId, hash } = work.desired;
    const named = { [kind.identity.statusField]: id, projectId };
    const isTakenOver = !isCreated && formerId !== id;
    // The status names what was taken over when that is done: a pass that ends in between does all of it again.
    if (!isTakenOver) work.fields = named;
    const isKnown = await settleOrigin(kind, work, isTakenOver);
    const isChanged = parseSpecHash(work.object.status?.specHash).desired !== hash;
    const found = { isCreated, formerId, isChanged, isTakenOver, isKnown };
    const changed = await kind.update(work, found);
    work.fields = named;
    const secret = await ensureSecret(context, kind, work);
    await kind.complete?.(work);
    await deleteFormerSecret(context.kube, kind, work);
    this.#record(work, found, changed);
    this.#settleFields(work, secret);
    work.memory.refusal = undefined;
  }

  async #desire(pass: Pass<O, D, E>): Promise<Work<O, D, E>> {
    const { object } = pass;
    const { identity } = this.#kind;
    const { projects } = this.#context;
    const projectName = await readProjectName(this.#context, object);
    this.#context.sharedProjects.require(object.metadata.namespace ?? '', projectName);
    const projectId = await projects.find(projectName);
    const id = await findClaimedId(this.#kind, pass, projectId);
    await this.#requireHeld(pass, { object, id, projectId });
    const desired = await this.#kind.desire(object, {
      id,
      projectId: async () => projectId ?? (await projects.ensure(projectName)),
    });
    const external = this.#connect(pass, desired);
    const desiredHash = desiredHashOf(object, identity.annotation, [desired.hash, id, desired.ownedFields]);
    return Object.assign(pass, { desired, external, desiredHash });
  }

  /** A status that says that the object has what is another's is corrected, or it would count after a restart. */
  async #requireHeld(pass: Pass<O, D, E>, claim: Claim<O>): Promise<void> {
    const { identity } = this.#kind;
    const holders = await resolveHolders(this.#context, this.#kind, pass, claim);
    const isForged = !holders.includes(claim.object) && hasHad(identity, claim.object, claim);
    if (isForged) pass.fields = { [identity.statusField]: undefined };
    requireHeld(identity, claim, holders);
  }

  #connect({ object, signal }: Pass<O, D, E>, { projectId, id }: { projectId: string; id: string }): E {
    return this.#kind.connect({ projectId, id, uid: object.metadata.uid ?? '', signal });
  }

  /** True if hash, version and Secret match the status: the steps are skipped, and the external resource is not read. */
  async #isUnchanged(work: Work<O, D, E>): Promise<boolean> {
    const { object, desired } = work;
    const { identity } = this.#kind;
    if (!hasFinalizer(object, FINALIZER)) return false;
    const { status, metadata } = object;
    const { id, projectId, ownedFields, hash } = desired;
    if (metadata.annotations?.[identity.annotation] !== id || statusIdOf(identity, object) !== id)
      return false;
    if (metadata.annotations[MANAGED_BY] !== this.#context.settings.release) return false;
    if (status?.projectId !== projectId || parseSpecHash(status.specHash).desired !== hash) return false;
    if (!isDeepStrictEqual(status.ownedFields, ownedFields)) return false;
    // A failed pass has written the version that it could not change.
    if (findCondition(status.conditions, 'Synced')?.status !== 'True') return false;
    if (this.#kind.isUnchanged?.(work) !== true) return false;
    return await isSecretIntact(this.#context, this.#kind, work);
  }

  /** Sets finalizer, release and id in one guarded patch, before anything is created for the object. */
  async #claim(pass: Pass<O, D, E>, id: string): Promise<void> {
    const { resource, identity } = this.#kind;
    const { uid, resourceVersion, finalizers = [], annotations } = pass.object.metadata;
    const isHeld = hasFinalizer(pass.object, FINALIZER);
    const { release } = this.#context.settings;
    if (isHeld && annotations?.[identity.annotation] === id && annotations[MANAGED_BY] === release) return;
    const metadata = {
      uid,
      resourceVersion,
      finalizers: isHeld ? finalizers : [...finalizers, FINALIZER],
      annotations: { [identity.annotation]: id, [MANAGED_BY]: release },
    };
    pass.object = await this.#context.kube.mergePatch(resource, pass.object.metadata, { metadata });
  }

  /** Ends the former resource, if there is one that is known to be this object's. */
  async #leaveFormer(work: Work<O, D, E>): Promise<void> {
    const { object, desired } = work;
    const { status } = object;
    if (status === undefined || formerOf(this.#kind, object, desired) === undefined) return;
    await leaveFormer(this.#context, this.#kind, work, desired);
    // The rest of the status described the former resource.
    const { secret, keptFields } = this.#kind;
    const kept = [secret.statusField, ...keptFields].map((field) => [field, status[field]]);
    work.object = { ...object, status: Object.fromEntries(kept) };
  }

  /**
   * No pass has claimed the object, so none has created anything for it. A claim that is taken off by hand leaves no trace:
   * `#createNew` finds out.
   */
  #isNew({ metadata, status }: O): boolean {
    const { identity } = this.#kind;
    const isClaimed = hasFinalizer({ metadata }, FINALIZER) || metadata.annotations?.[identity.annotation];
    return !isClaimed && status?.ownedFields === undefined && status?.projectId === undefined;
  }

  /** Creates without a read before, and without an announcement: the origin has the fields, and is part of the creation. */
  async #createNew(work: Work<O, D, E>): Promise<boolean> {
    if (this.#kind.isOwnTaken === undefined) return await this.#createMissing(work, undefined);
    try {
      return await this.#create(work, undefined);
    } catch (error) {
      if (!this.#kind.isOwnTaken(error)) throw error;
      return await this.#createMissing(work, undefined);
    }
  }

  /** Announces the fields of what is there, or was: the next pass knows them after a crash. False if there was a resource. */
  async #createMissing(work: Work<O, D, E>, formerId: string | undefined): Promise<boolean> {
    await announceFields(this.#context, this.#kind, work);
    const exists = await this.#kind.observe(work.external, work.object);
    return !exists && (await this.#create(work, formerId));
  }

  /** False if there is a resource: an earlier pass created it under the next id, or an earlier object of this name had it. */
  async #create(work: Work<O, D, E>, formerId: string | undefined): Promise<boolean> {
    const kind = this.#kind;
    const how = { wasThere: formerId === work.desired.id, hasOrigin: true };
    try {
      await kind.create(work, how);
    } catch (error) {
      const id = await this.#otherId(work, error);
      if (id !== undefined) {
        // The other id is written to the object before it is used.
        await this.#claim(work, id);
        await this.#desire(work);
        const exists = await kind.observe(work.external, work.object);
        return !exists && (await this.#create(work, formerId));
      }
      if (originHolderOf(error) === undefined) throw error;
      // No origin keeps the fields until it is set.
      await announceFields(this.#context, kind, work);
      await kind.create(work, { ...how, hasOrigin: false });
    }
    const { noun } = kind.identity;
    const { id } = work.desired;
    if (formerId !== undefined) {
      const created = formerId === id ? 'created it again' : `created ${id} in its place`;
      kind.events.recordDrift(
        work.object,
        `The ${noun} ${formerId} was deleted through the API: ${created}.`,
      );
    }
    return true;
  }

  /** The id to use instead after a creation failed: the next one, or the one of what an earlier object of this name had. */
  async #otherId(work: Work<O, D, E>, error: unknown): Promise<string | undefined> {
    const holderId = originHolderOf(error);
    if (holderId === undefined) return this.#kind.nextId?.(error, work);
    return await findEarlier(this.#context, this.#kind, work, holderId);
  }

  /** Records Events about what this pass has changed at the API. */
  #record(work: Work<O, D, E>, found: Found, changed: readonly string[]): void {
    const { object, desired } = work;
    const { identity, events } = this.#kind;
    const { id } = desired;
    const { isCreated, formerId, isChanged } = found;
    // A resource of the object's own id that the status does not name: a pass created it and did not end.
    const isNew = isCreated ? formerId === undefined : isOwnId(identity, object, id);
    if (formerId !== id && isNew) events.record(object, 'Created', `Created the ${identity.noun} ${id}.`);
    else if (found.isTakenOver) {
      const why = found.isKnown ? ', which an earlier object of this name had' : '';
      events.record(object, 'Adopted', `Adopted the ${identity.noun} ${id}${why}.`);
    }
    this.#kind.recordUpdate?.(work);
    if (isCreated || formerId !== id || changed.length === 0) return;
    const names = changed.join(', ');
    if (isChanged) events.record(object, 'Updated', `The spec changed: updated ${names}.`);
    else events.recordDrift(object, `Restored what was changed through the API: ${names}.`);
  }

  #settleFields(work: Work<O, D, E>, secret: string): void {
    const { ownedFields, hash, secretName } = work.desired;
    work.fields = {
      ...work.fields,
      ownedFields: [...ownedFields],
      specHash: formatSpecHash({ desired: hash, secret }),
      [this.#kind.secret.statusField]: secretName === undefined ? undefined : { name: secretName },
    };
  }

  async #finish(work: Work<O, D, E>, conditions: readonly ConditionFacts[]): Promise<ReconcileResult> {
    const waitMs = await writeStatus(this.#context, this.#kind, work, { conditions, isObserved: true });
    return { requeueAfterMs: Math.min(waitMs, this.#resyncMs, work.dueInMs), priority: 'low' };
  }

  /** Ends the external resource, then deletes the Secrets, then removes the finalizer. */
  async #finalize(pass: Pass<O, D, E>): Promise<void> {
    const { object } = pass;
    const { kube } = this.#context;
    if (!hasFinalizer(object, FINALIZER)) return;
    await this.#unlessForced(pass, () => leaveAll(this.#context, this.#kind, pass));
    await this.#unlessForced(pass, () => deleteSecrets(kube, this.#kind, object));
    await removeFinalizer(kube, this.#kind.resource, object, FINALIZER);
  }

  /** With `force-delete`, a refusal of the API or the cluster, or the silence of the API, does not keep the object. */
  async #unlessForced({ object }: Pass<O, D, E>, work: () => Promise<void>): Promise<void> {
    const { annotations, namespace, name } = object.metadata;
    try {
      await work();
    } catch (error) {
      const isRefused = isForbidden(error) || isInvalid(error);
      if (annotations?.[ANNOTATION.forceDelete] !== 'true' || !(error instanceof ApiProblem || isRefused))
        throw error;
      const who = isRefused ? 'cluster' : 'API';
      const words = `Released the object although the ${who} refused what its deletion asks for or did not answer: its annotation force-delete is set.`;
      this.#context.log.warn({ err: error, namespace, name }, words);
      if (!isRefused) return;
      const note = `${words} What the operator could not delete is left: ${error.message}`;
      this.#kind.events.record(object, 'Released', note);
    }
  }

  get #resyncMs(): number {
    return this.#kind.cache.resyncAfterMs(this.#context.settings.resyncMs);
  }
}

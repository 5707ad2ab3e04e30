// The interfaces that a kind implements for the one reconcile pass (reconcile.ts).
import type { ApiProblem } from '../../client/api-problem.ts';
import type { Declaration, Origin } from '../../domain/origin.ts';
import type { ConditionFacts, KubeCondition } from '../../kube/conditions.ts';
import type { KubeResource } from '../../kube/kube-object.ts';
import type { QueuePriority } from '../../kube/work-queue.ts';
import type { ObjectCache, ObjectMemory } from '../known/object-cache.ts';
import type { SecretObject } from '../resources/core-resources.ts';
import type { Fault, Identity, ReconciledObject, ReconciledStatus } from './object.ts';
import type { ObjectEvents } from './object-events.ts';

/** Names an external resource, and the object that it is for. */
export interface ExternalRef {
  projectId: string;
  id: string;
  /** The UID of the object: part of idempotency keys. */
  uid: string;
  signal?: AbortSignal;
}

/** The desired state of the external resource. A kind adds its own fields. */
export interface Desired {
  id: string;
  projectId: string;
  ownedFields: readonly string[];
  /** Undefined: the object has no Secret. */
  secretName: string | undefined;
  /** A hash of everything that is sent to the API. Equal desired states have equal hashes. */
  hash: string;
}

/** One pass over one object: what it knows and finds out, until it ends or fails. */
export interface Pass<O extends ReconciledObject = ReconciledObject, D = Desired, E = unknown> {
  /** As last read or written; this pass updates it. */
  object: O;
  memory: ObjectMemory<O>;
  signal: AbortSignal;
  desired?: D;
  /** The external resource, as far as this pass has read or changed it. */
  external?: E;
  /** Identifies what the API is asked for: a refusal holds for this hash. */
  desiredHash?: string;
  /**
   * The fields that the object set before this pass, and of a resource that it takes over by its origin those that
   * earlier objects of its name have set.
   */
  ownedBefore?: readonly string[];
  /** The status fields that this pass has determined. */
  fields: Partial<ReconciledStatus>;
  /** When the kind needs the next pass; Infinity: at the usual resync. */
  dueInMs: number;
}

/** A pass that knows the desired state. */
export type Work<O extends ReconciledObject, D, E> = Pass<O, D, E> & {
  desired: D;
  external: E;
  desiredHash: string;
};

export interface DesireFacts {
  id: string;
  /** Reads the id of the object's project, and creates the project if there is none. Throws ApiProblem, Blocked. */
  projectId(): Promise<string>;
}

/** What has changed since the last pass. */
export interface Change {
  /** The spec differs from the one that was applied last. */
  isChanged: boolean;
  /** The external resource existed, and the object did not have it before. */
  isTakenOver: boolean;
}

/** How an external resource is created. */
export interface Creation {
  /** The object had it before. */
  wasThere: boolean;
  /** The origin is part of the creation; else it is set afterwards, and taken from what has it. */
  hasOrigin: boolean;
}

/** An origin as the API shows it to the operator. */
export type KnownOrigin = Origin & Partial<Declaration>;

/** The object that an external resource is given to, and what the API keeps of it. */
export interface Claimant<O> extends Declaration {
  object: O;
}

/** A Secret that the object owns. */
export interface OwnedSecret {
  secret: SecretObject;
  /** Decoded, with the keys of the kind only. */
  data: Record<string, string>;
  annotations: Record<string, string>;
}

/** The desired content of a Secret. */
export interface SecretContent {
  /** Not encoded. A key of the kind that is missing here is removed; other keys stay. */
  data: Readonly<Record<string, string>>;
  /** Undefined: removed. */
  annotations: Readonly<Record<string, string | undefined>>;
  /** Recorded once the Secret is written. */
  event?: readonly [reason: 'SecretRestored' | 'SecretRotated', note: string] | undefined;
}

/** The Secret of a kind. The pass reads and writes it; the kind determines the content. */
export interface SecretKind<W extends Pass> {
  /** The status field that names the Secret. */
  readonly statusField: string;
  readonly keys: readonly string[];
  /** The name in the spec, or its default. */
  nameOf(object: W['object']): string;
  /** The hash of the content for `status.specHash`. */
  hashOf(data: Readonly<Record<string, string>>): string;
  /** A Secret that was found intact before is looked at again, ms of the process's clock. Undefined: at the next resync. */
  readonly intactSinceMs?: number | undefined;
  /** True if the content is as it was written, and the API has another one now. */
  isOutdated?(data: Readonly<Record<string, string>>): boolean;
  /** `known` is the current content, also of a Secret under the former name. */
  contentOf(work: W, known: OwnedSecret | undefined): Promise<SecretContent>;
}

/** The kind's part of the status. */
export interface KindStatus {
  fields: object;
  /** Set after the conditions of the pass. */
  conditions: readonly ConditionFacts[];
  /** Types of conditions to remove. */
  removed?: readonly string[];
}

/** `low`: behind all others. Default `normal`. */
export type Enqueue<O> = (objects: Iterable<O>, priority?: QueuePriority) => void;

/**
 * The hooks of a kind, in the order in which a pass calls them; `delete` also ends a former resource, before `observe`. Async hooks throw Blocked, ApiProblem and KubeError. A
 * pass may stop after any hook, and the next pass starts with the first: each hook must accept that its work is done.
 */
export interface Kind<O extends ReconciledObject, D extends Desired, E> {
  readonly resource: KubeResource<O>;
  readonly identity: Identity;
  readonly secret: SecretKind<Work<O, D, E>>;
  /** Status fields that survive a move to another project or id, beside the name of the Secret. */
  readonly keptFields: readonly string[];
  /** The conditions of a new object: the default of the schema. */
  readonly initialConditions: readonly KubeCondition[];
  readonly concurrency: number;
  readonly cache: ObjectCache<O>;
  readonly events: ObjectEvents;

  /** The desired state. Reads only what the spec refers to. */
  desire(object: O, facts: DesireFacts): Promise<D>;
  /** A client of the external resource. Sends nothing. */
  connect(ref: ExternalRef): E;
  /**
   * Called if the status matches the desired state: true if the API matches it too, as far as is known without a call.
   * A kind without this hook is always read.
   */
  isUnchanged?(work: Work<O, D, E>): boolean;
  /** Reads the external resource; false if it does not exist. */
  observe(external: E, object: O): Promise<boolean>;
  create(work: Work<O, D, E>, how: Creation): Promise<void>;
  /**
   * Whether `create` failed because the own id of the object is there already. A kind with this hook creates for a new object
   * without a read before.
   */
  isOwnTaken?(error: unknown): boolean;
  /** The origin of the external resource, as last read or changed. */
  originOf(external: E): KnownOrigin | undefined;
  /** Gives the external resource to an object, or to none. */
  setOrigin(external: E, claimant: Claimant<O> | undefined): Promise<void>;
  /** False if the object can never match the external resource of an earlier object of its name, and gets another one. */
  canTakeOver(external: E, object: O): boolean;
  /** The next id to try after `create` failed because the id was used before; undefined: it failed for another reason. */
  nextId?(error: unknown, work: Work<O, D, E>): string | undefined;
  /** Changes what differs from the desired state. Returns the names of those fields, for users. */
  update(work: Work<O, D, E>, change: Change): Promise<readonly string[]>;
  /** What has to wait until the Secret is written. */
  complete?(work: Work<O, D, E>): Promise<void>;
  /** Records the kind's own Events about the update. */
  recordUpdate?(work: Work<O, D, E>): void;
  /** The conditions of a synced object, beside `Synced`. */
  conditions(work: Work<O, D, E>): Promise<readonly ConditionFacts[]>;
  /** The kind's part of the status, wherever the pass ended. Sends nothing. */
  statusOf(pass: Pass<O, D, E>): KindStatus;
  /**
   * Called before a changed status is written. Returns in how many ms it may be written; 0: now, Infinity: the kind
   * enqueues the object when it may.
   */
  holdBack?(pass: Pass<O, D, E>, status: ReconciledStatus): number;
  /** Called after a status was written. Sends nothing. */
  statusWritten?(pass: Pass<O, D, E>, before: ReconciledStatus | undefined): void;
  /** The reason and the words of a refusal, without secrets. */
  explain(problem: ApiProblem, pass: Pass<O, D, E>): Fault;

  /** Ends the external resource as the deletion policy says, and records an Event. Not called for `Orphan`. */
  delete(external: E, object: O): Promise<void>;
}

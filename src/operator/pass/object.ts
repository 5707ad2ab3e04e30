// What the objects of every kind have in common, and why one may not match its spec. Imports nothing of the operator.
import type { KubeCondition } from '../../kube/conditions.ts';
import type { KubeObject } from '../../kube/kube-object.ts';

/** What the objects of every kind have in common. */
export interface CustomObject extends KubeObject {
  status?: ReconciledStatus;
}

/** An object that stands for something at the API. */
export interface ReconciledObject extends CustomObject {
  spec: { deletionPolicy?: string };
}

export interface ReconciledStatus {
  observedGeneration?: number;
  conditions?: KubeCondition[];
  projectId?: string;
  /** The fields of the external resource that the object sets. Written before the API is called. */
  ownedFields?: string[];
  specHash?: string;
  /** Fields of the kind: the id of the external resource, the name of the Secret, what the API says. */
  readonly [field: string]: unknown;
}

/** Why an object does not match its spec. `reason` is CamelCase, `message` a sentence. */
export interface Fault {
  reason: string;
  message: string;
}

/** What the API said last about the address of an object. */
export interface KnownDestination {
  url: string;
  /** Undefined: it sends there. */
  fault: Fault | undefined;
  /** When to ask again, ms of the process's clock. */
  dueAtMs: number;
}

/** How an object of a kind and its external resource find each other. */
export interface Identity {
  /** What users call the external resource: `monitor`, `callback endpoint`. */
  noun: string;
  /** The annotation that holds the id. */
  annotation: string;
  /** The prefix of ids that follow from the UID: `mon` for `mon_<uid>`. */
  prefix: string;
  /** The API never accepts a removed id again, so `cb_<uid>-2` is an id of the object too. */
  isNumbered: boolean;
  /** The status field that holds the id. */
  statusField: string;
}

export type BlockedReason =
  | 'Conflict'
  | 'SecretConflict'
  | 'SecretNotFound'
  | 'Refused'
  | 'ProjectNotAllowed';

/** A state that keeps an object from matching its spec and that a user can change: shown in its conditions, retried. */
export class Blocked extends Error {
  /** The reason in the conditions. */
  readonly reason: BlockedReason;
  /** When to try again; a change of the object is reconciled at once. */
  readonly retryMs: number;

  constructor(reason: BlockedReason, message: string, retryMs = 15_000) {
    super(message);
    this.name = 'Blocked';
    this.reason = reason;
    this.retryMs = retryMs;
  }
}

// Other objects that claim the same monitor or endpoint. An id is unique in a project, which namespaces may share.
import { projectNameKey } from '../../domain/name-key.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import { objectKey } from '../../kube/kube-object.ts';
import type { ObjectStore } from '../../kube/object-store.ts';
import { type OperatorContext, projectNameOf } from '../operator-context.ts';
import { holderOf, isIdentifier } from '../resources/identity.ts';
import { Blocked } from './blocked.ts';

/** All that is asked of the context: which project a namespace is. */
type Projects = Pick<OperatorContext, 'namespaces'>;

export interface Claim<T extends KubeObject> {
  /** With the index `id`. */
  store: ObjectStore<T>;
  object: T;
  id: string;
}

/** The object that has the id, of all that claim it in the project. */
export function findHolder<T extends KubeObject>(context: Projects, claim: Claim<T>): T {
  const { object, id } = claim;
  return holderOf([...conflictingClaims(context, claim), object], id) ?? object;
}

/** True if another object claims the id in the project. */
export function hasConflictingClaim<T extends KubeObject>(context: Projects, claim: Claim<T>): boolean {
  return conflictingClaims(context, claim).length > 0;
}

function conflictingClaims<T extends KubeObject>(context: Projects, { store, object, id }: Claim<T>): T[] {
  // Two ways to write one name are one project.
  const projectOf = (one: T) => projectNameKey(projectNameOf(context, one));
  return store
    .listBy('id', id)
    .filter((other) => other.metadata.uid !== object.metadata.uid && projectOf(other) === projectOf(object));
}

/** Throws Blocked: `Refused` where the id, which `annotation` states, is none; `Conflict` where another object has it. */
export function requireHeld<T extends KubeObject>(
  context: Projects,
  claim: Claim<T>,
  annotation: string,
): void {
  if (!isIdentifier(claim.id)) {
    const message = `The annotation ${annotation} is no identifier: correct or remove it.`;
    throw new Blocked('Refused', message, 600_000);
  }
  const holder = findHolder(context, claim);
  if (holder === claim.object) return;
  const message = `${claim.id} belongs to ${objectKey(holder)}: remove the annotation here, or delete that object.`;
  throw new Blocked('Conflict', message, 60_000);
}

// Which monitor or endpoint an object stands for, and which of two objects that claim one has it. Pure.
import { IDENTIFIER_PATTERN } from '../../domain/id.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import { ANNOTATION } from './names.ts';

interface Claiming extends KubeObject {
  status?: { monitorId?: string; endpointId?: string };
}

/** The id that follows from the object's UID: a create whose answer was lost finds its own monitor again. */
export function ownId(prefix: 'mon' | 'cb', object: KubeObject): string {
  return `${prefix}_${(object.metadata.uid ?? '').replaceAll('-', '')}`;
}

/** The annotation, else what was found before, else the object's own id. */
export function monitorIdOf(object: Claiming): string {
  const stated = object.metadata.annotations?.[ANNOTATION.monitorId];
  return stated || object.status?.monitorId || ownId('mon', object);
}

/** As `monitorIdOf`. */
export function endpointIdOf(object: Claiming): string {
  const stated = object.metadata.annotations?.[ANNOTATION.endpointId];
  return stated || object.status?.endpointId || ownId('cb', object);
}

export const isIdentifier = (id: string): boolean => IDENTIFIER_PATTERN.test(id);

/**
 * An endpoint that was removed keeps its id for good: the next one is `cb_<uid>-2`, `-3` and so on. Follows from
 * the id before it, so that every pass comes to the same one.
 */
export function nextEndpointId(id: string, object: KubeObject): string {
  const own = ownId('cb', object);
  if (id === own) return `${own}-2`;
  const count = id.startsWith(`${own}-`) ? Number(id.slice(own.length + 1)) : Number.NaN;
  return Number.isSafeInteger(count) ? `${own}-${count + 1}` : own;
}

/**
 * Who has the id among objects that claim it: the one that it was made for, then the one that has it already, then
 * the oldest, then by UID. Undefined without objects.
 */
export function holderOf<T extends Claiming>(claimants: readonly T[], id: string): T | undefined {
  return claimants.toSorted((a, b) => {
    const byMaking = rank(a, id) - rank(b, id);
    return byMaking === 0 ? compareAge(a, b) : byMaking;
  })[0];
}

function rank(object: Claiming, id: string): number {
  if (id === ownId('mon', object) || id.startsWith(ownId('cb', object))) return 0;
  const { monitorId, endpointId } = object.status ?? {};
  return monitorId === id || endpointId === id ? 1 : 2;
}

/** Oldest first; of one second, by UID. */
export function compareAge(a: KubeObject, b: KubeObject): number {
  return (
    compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
    compare(a.metadata.uid, b.metadata.uid)
  );
}

function compare(a = '', b = ''): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

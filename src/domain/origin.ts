// The object of a cluster that a monitor or an endpoint stands for (docs/contract/kubernetes.md, "Identity"). The operator
// alone sets it. This file reads and writes nothing.
import { optionalTime, toTime } from './timestamp.ts';

export const MONITOR_ORIGIN_KINDS = ['Monitor', 'CronJob'] as const;
export const ENDPOINT_ORIGIN_KINDS = ['Callback'] as const;

export type MonitorOriginKind = (typeof MONITOR_ORIGIN_KINDS)[number];
export type EndpointOriginKind = (typeof ENDPOINT_ORIGIN_KINDS)[number];

export interface Origin<Kind extends string = MonitorOriginKind | EndpointOriginKind> {
  kind: Kind;
  namespace: string;
  name: string;
}

/** What the operator alone sees of an origin. */
export interface Declaration {
  /** An object that is made again under the same name has another one. */
  uid: string;
  /** The fields that the objects of this name have ever set; an object that is made again gives up those that it lacks. */
  ownedFields?: readonly string[];
}

export interface ObjectOrigin<Kind extends string = MonitorOriginKind | EndpointOriginKind>
  extends Origin<Kind>,
    Declaration {}

export interface MonitorOrigin extends ObjectOrigin<MonitorOriginKind> {
  /** Since when the operator does not see the object. */
  orphanedMs?: number;
}

export type EndpointOrigin = ObjectOrigin<EndpointOriginKind>;

export function isSameObject(one: ObjectOrigin | undefined, other: ObjectOrigin | undefined): boolean {
  return one?.uid === other?.uid && isSameOrigin(one, other);
}

export function isSameOrigin(one: Origin | undefined, other: Origin | undefined): boolean {
  return one?.kind === other?.kind && one?.namespace === other?.namespace && one?.name === other?.name;
}

/** `Monitor payments/backup` */
export function nameOfOrigin({ kind, namespace, name }: Origin): string {
  return `${kind} ${namespace}/${name}`;
}

/** With the owned fields of the origin before, where it states none and the object has the same name. */
export function withOwnedFields<Stated extends ObjectOrigin>(
  stated: Stated,
  before: ObjectOrigin | undefined,
): Stated {
  if (stated.ownedFields !== undefined || !isSameOrigin(stated, before)) return stated;
  return { ...stated, ownedFields: before?.ownedFields };
}

/** As alerts and everybody but the operator see it. */
export function toOriginRecord({ kind, namespace, name, orphanedMs }: MonitorOrigin) {
  return { kind, namespace, name, orphanedAt: optionalTime(orphanedMs) };
}

/** What an alert says of a monitor whose object is gone; undefined while the object is there. */
export function orphanSentence(origin: MonitorOrigin | undefined): string | undefined {
  if (origin?.orphanedMs === undefined) return undefined;
  const since = toTime(origin.orphanedMs);
  return `The ${nameOfOrigin(origin)} that declares it is gone from the cluster since ${since}: apply it again, or archive the monitor.`;
}

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

/** With the UID, which an object that is made again under the same name does not have. Never shown. */
export interface ObjectOrigin<Kind extends string = MonitorOriginKind | EndpointOriginKind>
  extends Origin<Kind> {
  uid: string;
}

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

/** As the API and alerts show it: without the UID. */
export function toOriginRecord({ kind, namespace, name, orphanedMs }: MonitorOrigin) {
  return { kind, namespace, name, orphanedAt: optionalTime(orphanedMs) };
}

/** What an alert says of a monitor whose object is gone; undefined while the object is there. */
export function orphanSentence(origin: MonitorOrigin | undefined): string | undefined {
  if (origin?.orphanedMs === undefined) return undefined;
  const since = toTime(origin.orphanedMs);
  return `The ${nameOfOrigin(origin)} that declares it is gone from the cluster since ${since}: apply it again, or archive the monitor.`;
}

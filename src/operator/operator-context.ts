// What every part of the operator works with: clients, caches, directories. One per process; tests make their own.

import type { RestClient } from '../client/rest-client.ts';
import type { EventFacts, EventRecorder } from '../kube/event-recorder.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import type { KubeLog } from '../kube/kube-log.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import type { ObjectStore } from '../kube/object-store.ts';
import type { CallbackObject } from './kinds/callback/callback-object.ts';
import type { MonitorObject } from './kinds/monitor/monitor-object.ts';
import type { BindingDirectory } from './known/binding-directory.ts';
import type { MonitorStatusCache } from './known/monitor-status-cache.ts';
import type { ObjectMemories } from './known/object-memory.ts';
import type { ProjectDirectory } from './known/project-directory.ts';
import type { OperatorMetrics } from './operator-metrics.ts';
import { NAMESPACES } from './resources/core-resources.ts';
import { ANNOTATION } from './resources/names.ts';

export interface OperatorContext {
  kube: KubeClient;
  api: RestClient;
  events: Pick<EventRecorder, 'record'>;
  log: KubeLog;
  metrics: OperatorMetrics;
  monitors: ObjectStore<MonitorObject>;
  callbacks: ObjectStore<CallbackObject>;
  /** Empty where single namespaces are watched: then a namespace's name is its project. */
  namespaces: ObjectStore<KubeObject>;
  projects: ProjectDirectory;
  bindings: BindingDirectory;
  statusCache: MonitorStatusCache;
  monitorMemories: ObjectMemories<MonitorObject>;
  callbackMemories: ObjectMemories<CallbackObject>;
  settings: OperatorTuning;
}

export interface OperatorTuning {
  /** Each object is looked at again after about this time. */
  resyncMs: number;
  /** A new lastBeatAt alone is written at most this often. */
  lastBeatPeriodMs: number;
  defaultCallbackNamespaces: readonly string[];
  /** All namespaces are watched, so that their annotations can be read. */
  isClusterWide: boolean;
}

/** The name of the project of an object, as the cache has it: its namespace's annotation, else the namespace's name. */
export function projectNameOf(
  { namespaces }: Pick<OperatorContext, 'namespaces'>,
  object: KubeObject,
): string {
  const { namespace = '' } = object.metadata;
  return projectNameIn(namespaces.get(namespace)) || namespace;
}

/**
 * As `projectNameOf`, where something is to be made: a namespace that the cache does not have yet is read, so that
 * nothing is made in a project that its annotation does not mean. Throws KubeError.
 */
export async function readProjectName(context: OperatorContext, object: KubeObject): Promise<string> {
  const { namespace = '' } = object.metadata;
  const { namespaces, kube, settings } = context;
  if (!settings.isClusterWide || namespaces.get(namespace) !== undefined)
    return projectNameOf(context, object);
  return projectNameIn(await kube.find(NAMESPACES, { name: namespace })) || namespace;
}

function projectNameIn(namespace: KubeObject | undefined): string | undefined {
  return namespace?.metadata.annotations?.[ANNOTATION.project]?.trim();
}

/** Notes an Event of type Normal about an object, and a line in the log. */
export function recordEvent(
  context: OperatorContext,
  object: KubeObject,
  reason: string,
  note: string,
): void {
  record(context, object, { type: 'Normal', reason, note });
}

/** Notes an Event of type Warning about an object, and a line in the log. */
export function recordWarning(
  context: OperatorContext,
  object: KubeObject,
  reason: string,
  note: string,
): void {
  record(context, object, { type: 'Warning', reason, note });
}

function record({ events, log }: OperatorContext, object: KubeObject, facts: EventFacts): void {
  const { kind, metadata } = object;
  events.record(object, facts);
  log.info({ kind, namespace: metadata.namespace, name: metadata.name, reason: facts.reason }, facts.note);
}

/** The time between two looks at one of `count` objects: stretched so that they are at most some 40 a second. */
export function resyncPeriodMs({ settings }: Pick<OperatorContext, 'settings'>, count: number): number {
  return Math.max(settings.resyncMs, (count / 40) * 1000);
}

/** As `resyncPeriodMs`, scattered by 15 %, so that looks do not come in waves. */
export function resyncAfterMs(context: Pick<OperatorContext, 'settings'>, count: number): number {
  return resyncPeriodMs(context, count) * (0.85 + 0.3 * Math.random());
}

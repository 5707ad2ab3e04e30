// What keeps the Jobs of one workload from running, as the cluster shows it now (docs/contract/kubernetes.md, "Causes").
// Level-based: it reads what is there, and no Events. Pure.
import type { NamedCause } from '../../../domain/operator-cause.ts';
import { type ContainerStatus, IMAGE_REASONS, type JobObject, type PodObject } from '../batch-objects.ts';
import { endOf } from '../job-state.ts';
import type { QuotaObject } from './cause-objects.ts';
import { exhaustedQuota } from './exhausted-quota.ts';

/** A Job that is there, with its pods. */
export interface JobPods {
  job: JobObject;
  pods: readonly PodObject[];
  /** Of those that are gone the last state. */
  gonePods: readonly PodObject[];
}

export interface CauseFacts {
  namespace: string;
  /** The namespace is being deleted. */
  isLeaving: boolean;
  jobs: readonly JobPods[];
  /** Of the CronJob; RFC 3339. */
  lastSuccessfulTime?: string;
  /** Whether a node is not ready, or gone. */
  isNodeDown(name: string): boolean;
  /** Of the namespace. */
  quotas: readonly QuotaObject[];
  nowMs: number;
}

export interface FoundCause {
  /** Undefined: none is seen. */
  cause?: NamedCause;
  /** When to look again although nothing changes; undefined: not at all. */
  dueInMs?: number;
  /** A Job has no pod: a change of a quota of the namespace concerns it. */
  wantsPods: boolean;
}

/** A Job that has no pod yet may get one: the watches of Jobs and of pods do not keep in step. */
const SETTLE_MS = 5_000;
/** How long a Job counts that has failed with its node: until the API has decided about the alert of its failure. */
const LOST_MS = 120_000;
const MAX_OBJECT = 512;

/** One cause at most, the one that explains the others first. */
export function causeOf(facts: CauseFacts): FoundCause {
  const { namespace, isLeaving } = facts;
  const jobs = currentJobs(facts);
  if (isLeaving) return { cause: { cause: 'namespace_terminating', object: namespace }, wantsPods: false };
  const nodes = jobs.map((one) => nodesOf(one, facts.nowMs));
  const pods = jobs.map((one) => podlessFor(one, facts.nowMs));
  const waits = [...nodes, ...pods].flatMap(({ dueInMs = [] }) => dueInMs);
  const more = {
    ...(waits.length === 0 ? {} : { dueInMs: Math.min(...waits) }),
    wantsPods: pods.some(({ isPodless }) => isPodless),
  };
  const cause = nodeDown(nodes, facts) ?? quotaExceeded(jobs, pods, facts) ?? imageFault(jobs);
  return cause === undefined ? more : { cause, ...more };
}

/** A run that is stuck while later ones succeed says nothing of what keeps the next one from running. */
function currentJobs({ jobs, lastSuccessfulTime }: CauseFacts): JobPods[] {
  const succeeded = jobs.flatMap(({ job }) => (endOf(job)?.isSuccess ? [begunMs(job)] : []));
  const since = Math.max(...succeeded, succeeded.length > 0 ? 0 : Date.parse(lastSuccessfulTime ?? '') || 0);
  return jobs.filter(({ job }) => begunMs(job) >= since);
}

const begunMs = ({ status, metadata }: JobObject): number =>
  Date.parse(status?.startTime ?? metadata.creationTimestamp ?? '') || 0;

interface JobNodes {
  names: readonly string[];
  dueInMs?: number;
}

function nodeDown(nodes: readonly JobNodes[], { isNodeDown }: CauseFacts): NamedCause | undefined {
  const [object] = nodes.flatMap(({ names }) => names.filter((name) => isNodeDown(name))).sort();
  return object === undefined ? undefined : { cause: 'node_not_ready', object };
}

/** The nodes that the run depends on, or has failed with. */
function nodesOf({ job, pods, gonePods }: JobPods, nowMs: number): JobNodes {
  const end = endOf(job);
  if (end === undefined) return { names: currentPods(pods).flatMap(nodeOf) };
  const leftMs = LOST_MS - (nowMs - Date.parse(end.at));
  if (end.isSuccess || !(leftMs > 0)) return { names: [] };
  const names = [...pods, ...gonePods].filter(isLost).flatMap(nodeOf);
  return names.length === 0 ? { names } : { names, dueInMs: leftMs };
}

const nodeOf = ({ spec }: PodObject): string[] => (spec?.nodeName === undefined ? [] : [spec.nodeName]);

export function isUnfinished({ status }: PodObject): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

/** A pod that is being deleted, as on a node that is gone, counts no more where another one has taken its place. */
function currentPods(pods: readonly PodObject[]): PodObject[] {
  const unfinished = pods.filter(isUnfinished);
  const staying = unfinished.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return staying.length > 0 ? staying : unfinished;
}

/** Nobody has seen its containers end: its kubelet was silent. */
function isLost({ status }: PodObject): boolean {
  const all = status?.containerStatuses ?? [];
  return all.length === 0 || all.some(({ state }) => state?.terminated === undefined);
}

interface Podless {
  /** The Job wants pods, has none, and its controller has been at it. */
  isPodless: boolean;
  /** It has had none for long enough. */
  isSettled: boolean;
  dueInMs?: number;
}

const NOT_PODLESS: Podless = { isPodless: false, isSettled: false };

function podlessFor({ job, pods, gonePods }: JobPods, nowMs: number): Podless {
  const { startTime, active = 0 } = job.status ?? {};
  if (startTime === undefined || active > 0 || !wantsPods(job) || pods.some(isUnfinished)) return NOT_PODLESS;
  const ends = [...pods, ...gonePods].flatMap(({ metadata, status }) => [
    metadata.deletionTimestamp,
    ...(status?.containerStatuses ?? []).map(({ state }) => state?.terminated?.finishedAt),
  ]);
  const sinceMs = Math.max(...[startTime, ...ends].map((at) => Date.parse(at ?? '') || 0));
  const leftMs = sinceMs + SETTLE_MS - nowMs;
  return { isPodless: true, isSettled: leftMs <= 0, ...(leftMs > 0 ? { dueInMs: leftMs } : {}) };
}

/** A Job that is about to fail or to complete makes no more pods. */
const ENDING: ReadonlySet<string> = new Set(['FailureTarget', 'SuccessCriteriaMet']);

function wantsPods(job: JobObject): boolean {
  const { spec, metadata, status } = job;
  if (endOf(job) !== undefined || metadata.deletionTimestamp !== undefined) return false;
  if (spec.suspend === true || spec.parallelism === 0) return false;
  return !(status?.conditions ?? []).some(({ type, status: value }) => ENDING.has(type) && value === 'True');
}

function quotaExceeded(
  jobs: readonly JobPods[],
  pods: readonly Podless[],
  { namespace, quotas }: CauseFacts,
): NamedCause | undefined {
  // A Job whose pods fail waits for longer and longer before the next one.
  const settled = jobs.filter(({ job }, place) => pods[place]?.isSettled && !job.status?.failed);
  const names = settled.flatMap(
    ({ job }) => exhaustedQuota(quotas, job.spec.podNeeds ?? {})?.metadata.name ?? [],
  );
  const [name] = names.sort();
  return name === undefined ? undefined : { cause: 'quota_exceeded', object: `${namespace}/${name}` };
}

function imageFault(jobs: readonly JobPods[]): NamedCause | undefined {
  const unfinished = jobs.filter(({ job }) => endOf(job) === undefined);
  const images = unfinished.flatMap(({ pods }) =>
    pods
      .filter((pod) => isUnfinished(pod) && pod.metadata.deletionTimestamp === undefined)
      .flatMap(({ status }) => [
        ...(status?.initContainerStatuses ?? []),
        ...(status?.containerStatuses ?? []),
      ])
      .flatMap(missingImage),
  );
  const [object] = images.sort();
  return object === undefined ? undefined : { cause: 'image_cannot_be_pulled', object };
}

function missingImage({ image, state }: ContainerStatus): string[] {
  if (image === undefined || !IMAGE_REASONS.has(state?.waiting?.reason ?? '')) return [];
  // One that is no name at all must not make the API refuse the others.
  return [image.replaceAll(/[^\x21-\x7e]/g, '?').slice(0, MAX_OBJECT)];
}

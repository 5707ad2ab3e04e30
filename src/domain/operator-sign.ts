// What the signs of life of an operator say of the monitors that it beats (docs/contract/deadlines.md, "While no operator
// leads"): they are judged up to its last sign, and its absence is an outage for them. Pure.
import type { Outage } from './monitor.ts';
import { mergeOutages } from './silence.ts';

/** An operator without a sign for longer is silent. A new leader works sooner: its predecessor's death is no outage. */
export const SILENT_MS = 20_000;
/** A sign comes every five seconds, and takes a moment. */
const NEXT_SIGN_MS = 6_000;

/** An operator, as one organization knows it. */
export interface OperatorSigns {
  /** Undefined: it never gave one. */
  signMs?: number;
  /** That have ended. Oldest first, disjoint. */
  outages: readonly Outage[];
}

/** A part of the monitors of an operator: those of a project, or one of them. */
export interface OperatorPart {
  projectId: string;
  monitorId?: string;
}

/** The name of a part where it is kept. */
export function partName({ projectId, monitorId }: OperatorPart): string {
  return monitorId === undefined ? projectId : `${projectId} ${monitorId}`;
}

/** An operator, with the parts that it did not vouch for. */
export interface PartedSigns extends OperatorSigns {
  /** Of the parts that it leaves out now the last sign before, by name. */
  behind: ReadonlyMap<string, number>;
  /** Of parts that it has left out. */
  partOutages: ReadonlyMap<string, readonly Outage[]>;
}

/** What counts for one monitor. The same object where no part that it belongs to was left out. */
export function signsOf(signs: PartedSigns, monitor: Required<OperatorPart>): OperatorSigns {
  const { signMs, outages, behind, partOutages } = signs;
  if (behind.size === 0 && partOutages.size === 0) return signs;
  const names = [partName({ projectId: monitor.projectId }), partName(monitor)];
  const leftOut = names.flatMap((name) => behind.get(name) ?? []);
  const own = names.flatMap((name) => partOutages.get(name) ?? []);
  if (leftOut.length === 0 && own.length === 0) return signs;
  return {
    signMs: signMs === undefined ? undefined : Math.min(signMs, ...leftOut),
    outages: own.length === 0 ? outages : mergeOutages([...outages, ...own]),
  };
}

/** What decides about the monitors of one operator. */
export interface BeatenMoment {
  nowMs: number;
  /** No deadline after it counts as missed. */
  horizonMs: number;
  /** Of the service and the operator, as `mergeOutages` returns them. */
  outages: readonly Outage[];
  operator: OperatorSigns;
  /** As it is for all other monitors. */
  service: { horizonMs: number; outages: readonly Outage[] };
}

/**
 * The moment for the monitors of an operator. They are judged up to its last sign, also where that is fresh: a job may have
 * succeeded after it, and the operator died before it could say so.
 */
export function momentOf<Known extends Pick<BeatenMoment, 'nowMs' | 'horizonMs' | 'outages'>>(
  service: Known,
  operator: OperatorSigns,
): Known & BeatenMoment {
  const { horizonMs, outages } = service;
  return {
    ...service,
    horizonMs: Math.min(horizonMs, operator.signMs ?? Number.NEGATIVE_INFINITY),
    outages: mergeOutages([...outages, ...operator.outages]),
    operator,
    service: { horizonMs, outages },
  };
}

/** Whether an operator is silent, and since when; undefined `sinceMs`: it never gave a sign. */
export function silenceOf(
  { signMs }: Pick<OperatorSigns, 'signMs'>,
  nowMs: number,
): { isSilent: boolean; sinceMs?: number } {
  const isSilent = signMs === undefined || nowMs - signMs > SILENT_MS;
  return isSilent ? { isSilent, sinceMs: signMs } : { isSilent };
}

/** What was known of an operator at a moment in the past: of a silence that ended later, its beginning alone. */
export function signsAt({ signMs, outages }: OperatorSigns, atMs: number): OperatorSigns {
  const running = outages.find(({ fromMs, toMs }) => fromMs < atMs && atMs < toMs);
  return {
    signMs: running?.fromMs ?? (signMs === undefined ? undefined : Math.min(signMs, atMs)),
    outages: outages.filter(({ toMs }) => toMs <= atMs),
  };
}

const FIRST_LOOK_MS = 3_000;
const SILENT_LOOK_MS = 15_000;
const LONGEST_LOOK_MS = 60_000;

/**
 * When a sweeper looks again at a monitor that is due and may not be judged yet: with the next sign; of one that is silent more
 * and more rarely, because thousands may wait for hours.
 */
export function nextLook({ signMs }: OperatorSigns, nowMs: number): number {
  if (signMs === undefined) return nowMs + LONGEST_LOOK_MS;
  const silentMs = nowMs - signMs;
  if (silentMs > SILENT_MS) {
    return nowMs + Math.min(LONGEST_LOOK_MS, Math.max(SILENT_LOOK_MS, Math.floor(silentMs / 10)));
  }
  const nextMs = Math.max(signMs + NEXT_SIGN_MS, nowMs + FIRST_LOOK_MS);
  // A sign that is ahead was given before the database's clock was set back.
  return Math.min(nextMs, nowMs + SILENT_LOOK_MS);
}

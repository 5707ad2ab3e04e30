// How far the replay of a Rule has come, as `status.replay` shows it. Pure: each step makes a new progress, so that a
// status that is being written never changes.
import {
  MAX_OMISSIONS_SHOWN,
  MAX_REPLAYED_SHOWN,
  type RuleReplayStatus,
} from '../../../../contract/crd/rule-replay.ts';
import { MAX_REPLAY_DAYS } from '../../../../contract/resources/draft.ts';
import { DAY_MS } from '../../../../domain/retention.ts';
import { formatSeconds } from '../../../../kube/kube-object.ts';
import { formatCount } from '../words.ts';

export type ReplayNumbers = RuleReplayStatus['total'];
type ShownMonitor = RuleReplayStatus['monitors'][number];
type Omission = NonNullable<RuleReplayStatus['omissions']>[number];

/** What became of one Monitor. */
export type ReplayOutcome = { numbers: ReplayNumbers } | { omission: Pick<Omission, 'reason' | 'message'> };

/** What a replay is for: another one of a field means another replay. */
export interface ReplayCause {
  generation: number;
  /** The value of the annotation `beatkeeper.dev/replay`. */
  request?: string | undefined;
}

const NOTHING: ReplayNumbers = {
  observationCount: 0,
  currentIncidents: 0,
  proposedIncidents: 0,
  added: 0,
  removed: 0,
  refusedCount: 0,
};

/** A replay that begins now. All Monitors have the same window: the days before its begin. */
export function startProgress(
  { generation, request }: ReplayCause,
  { matched, nowMs }: { matched: number; nowMs: number },
): RuleReplayStatus {
  return withWords({
    generation,
    ...(request === undefined ? {} : { request }),
    since: formatSeconds(nowMs - MAX_REPLAY_DAYS * DAY_MS),
    until: formatSeconds(nowMs),
    progress: '',
    matched,
    replayed: 0,
    omitted: 0,
    total: NOTHING,
    monitors: [],
  });
}

/** True if the progress is of this replay, so that it goes on there. */
export function isOf(progress: RuleReplayStatus, { generation, request }: ReplayCause): boolean {
  return progress.generation === generation && progress.request === request;
}

/** The number of Monitors that have been dealt with. */
export function doneCount({ replayed, omitted }: RuleReplayStatus): number {
  return replayed + omitted;
}

/** `matched`: all that the Rule matches, done or not. */
export function withMatched(progress: RuleReplayStatus, matched: number): RuleReplayStatus {
  return withWords({ ...progress, matched });
}

/** `cursor`: where the replay goes on after a restart. */
export function withOutcome(
  progress: RuleReplayStatus,
  { name, cursor }: { name: string; cursor: string },
  outcome: ReplayOutcome,
): RuleReplayStatus {
  const after =
    'numbers' in outcome
      ? withNumbers(progress, { name, ...outcome.numbers })
      : withOmission(progress, { ...outcome.omission, count: 1, monitor: name });
  return withWords({ ...after, cursor });
}

export function finishProgress(
  { cursor: _, ...progress }: RuleReplayStatus,
  nowMs: number,
): RuleReplayStatus {
  return { ...progress, finishedAt: formatSeconds(nowMs) };
}

function withNumbers(progress: RuleReplayStatus, monitor: ShownMonitor): RuleReplayStatus {
  const { total, monitors, replayed } = progress;
  return {
    ...progress,
    replayed: replayed + 1,
    total: {
      observationCount: total.observationCount + monitor.observationCount,
      currentIncidents: total.currentIncidents + monitor.currentIncidents,
      proposedIncidents: total.proposedIncidents + monitor.proposedIncidents,
      added: total.added + monitor.added,
      removed: total.removed + monitor.removed,
      refusedCount: total.refusedCount + monitor.refusedCount,
    },
    monitors: [...monitors, monitor].toSorted(compareEffect).slice(0, MAX_REPLAYED_SHOWN),
  };
}

/** The greatest effect first; by name where two are equal, so that the order of replays does not show. */
function compareEffect(a: ShownMonitor, b: ShownMonitor): number {
  const byEffect = b.added + b.removed - (a.added + a.removed);
  const byRefusals = b.refusedCount - a.refusedCount;
  return byEffect || byRefusals || b.proposedIncidents - a.proposedIncidents || (a.name < b.name ? -1 : 1);
}

/** Reasons past the number that is shown count in `omitted` alone. */
function withOmission(progress: RuleReplayStatus, omission: Omission): RuleReplayStatus {
  const { omissions = [], omitted } = progress;
  const isSame = ({ reason, message }: Omission) =>
    reason === omission.reason && message === omission.message;
  const known = omissions.some(isSame);
  const counted = known
    ? omissions.map((one) => (isSame(one) ? { ...one, count: one.count + 1 } : one))
    : [...omissions, omission].slice(0, MAX_OMISSIONS_SHOWN);
  return { ...progress, omitted: omitted + 1, omissions: counted };
}

function withWords(progress: RuleReplayStatus): RuleReplayStatus {
  const words = `replayed ${formatCount(doneCount(progress))} of ${formatCount(progress.matched)}`;
  return { ...progress, progress: words };
}

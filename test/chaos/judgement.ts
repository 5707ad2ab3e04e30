// Judges what happened around a fault.
import type { LostBeat, SenderReport } from './sender-protocol.ts';

export interface Timing {
  /** Interval and grace. */
  silenceMs: number;
}

/** An incident of the monitor with this index. */
export interface Opened {
  index: number;
  openedAt: number;
}

export interface Observed {
  report: SenderReport;
  opened: readonly Opened[];
  /** Senders that died around this fault. */
  dying: readonly number[];
  /** Senders that had died before. */
  dead: ReadonlySet<number>;
  /** When the fault was over. */
  endedAt: number;
}

export interface Judgement {
  sent: number;
  accepted: number;
  /** Beats without a 200 by their outcome. */
  lost: Record<string, number>;
  /** Those of them that were sent after the fault. */
  lostAfter: Record<string, number>;
  slowestMs: number;
  falseIncidents: number;
  /** Incidents of senders that were late by themselves: the machine held them up. */
  ownSilences: number;
  died: number;
  found: number;
  late: number;
  /** From the moment at which the slowest one was due until its incident. */
  slowestDetectionMs: number;
}

export interface FaultResult extends Judgement {
  fault: string;
  apis: number;
}

/** Detection waits for the next sign of life of each api and for a sweeper's turn: seconds, but for a busy machine. */
const DETECTION_MS = 30_000;

export function judge(observed: Observed, { silenceMs }: Timing): Judgement {
  const { report, opened, dying, dead, endedAt } = observed;
  const own = opened.filter(({ index }) => (report.longestGapMs[index] ?? 0) >= silenceMs);
  const ownSilences = new Set(own.map(({ index }) => index));
  const lastSentAt = (index: number) => report.lastSentAt[index] ?? 0;
  const isDying = new Set(dying);
  const isFalse = ({ index, openedAt }: Opened) => {
    if (ownSilences.has(index) || dead.has(index)) return false;
    return !isDying.has(index) || openedAt < lastSentAt(index) + silenceMs;
  };
  const foundAt = new Map(opened.filter((one) => !isFalse(one)).map((one) => [one.index, one.openedAt]));
  const found = dying.filter((index) => foundAt.has(index));
  const delays = found.map(
    (index) => (foundAt.get(index) ?? 0) - Math.max(lastSentAt(index), endedAt) - silenceMs,
  );
  return {
    sent: report.sent,
    accepted: report.accepted,
    lost: count(report.lost),
    lostAfter: count(report.lost.filter(({ sentAt }) => sentAt >= endedAt)),
    slowestMs: report.slowestMs,
    falseIncidents: opened.filter(isFalse).length,
    ownSilences: ownSilences.size,
    died: dying.length,
    found: found.length,
    late: delays.filter((ms) => ms > DETECTION_MS).length + dying.length - found.length,
    slowestDetectionMs: Math.max(...delays),
  };
}

function count(beats: readonly LostBeat[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of beats) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

// The explanation of a monitor as the API shows it (docs/contract/monitors.md).
import type { OperationOutput } from '../../contract/operations/operations.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { ExplainedMonitor } from '../../service/monitors/explain.ts';

export function presentExplanation(explained: ExplainedMonitor): OperationOutput<'explainMonitor'> {
  const { monitorId, atMs, health, because, lastBeat, deadline, rules, silence } = explained;
  return {
    monitorId,
    at: toTime(atMs),
    health,
    because,
    lastBeat: lastBeat && {
      receivedAt: toTime(lastBeat.receivedMs),
      sequence: lastBeat.sequence,
      kind: lastBeat.kind,
    },
    deadline: {
      at: optionalTime(deadline.atMs),
      parts: deadline.parts.map(({ kind, atMs: partMs, ms, note }) => ({
        kind,
        at: optionalTime(partMs),
        seconds: ms === undefined ? undefined : ms / 1000,
        note,
      })),
    },
    rules: rules.map(({ isActive: _, ...rule }) => rule),
    silence: silence.map(({ reason, untilMs, note }) => ({ reason, until: optionalTime(untilMs), note })),
  };
}

// The objects that only a person can help, counted by the reason in their condition `Stalled`.
import { findCondition } from '../kube/conditions.ts';
import type { CustomObject } from './pass/object.ts';

/** Reasons of `Stalled`. Whoever may write a status may write any text there: all others are one series. */
export const STALLED_REASONS = [
  'AliasConflict',
  'Conflict',
  'DestinationRejected',
  'DisabledByReceiver',
  'EndpointDisabled',
  'ProjectNotAllowed',
  'Refused',
  'SecretConflict',
  'Other',
] as const;
export type StalledReason = (typeof STALLED_REASONS)[number];

/** With every reason, also those of no object: a series must not keep the number of what has ended. */
export function countStalled(objects: Iterable<CustomObject>): Map<StalledReason, number> {
  const counts = new Map<StalledReason, number>(STALLED_REASONS.map((reason) => [reason, 0]));
  for (const { status } of objects) {
    const stalled = findCondition(status?.conditions, 'Stalled');
    if (stalled?.status !== 'True') continue;
    const reason = STALLED_REASONS.find((known) => known === stalled.reason) ?? 'Other';
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}

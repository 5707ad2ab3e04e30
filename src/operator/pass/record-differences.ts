// Tells of what a pass changed at the API: as the spec now says, or back to it after somebody else's change.
import type { KubeObject } from '../../kube/kube-object.ts';
import { type OperatorContext, recordEvent, recordWarning } from '../operator-context.ts';

/** `fields` as users call them; nothing is told where there are none. `isChanged`: the spec is a new one. */
export function recordDifferences(
  context: OperatorContext,
  object: KubeObject,
  { fields, isChanged }: { fields: readonly string[]; isChanged: boolean },
): void {
  if (fields.length === 0) return;
  const names = fields.join(', ');
  if (isChanged) recordEvent(context, object, 'Updated', `Changed ${names}.`);
  else recordDrift(context, object, `Put back what was changed elsewhere: ${names}.`);
}

/** What was changed elsewhere and is as the spec says again. `note` is a sentence. */
export function recordDrift(context: OperatorContext, object: KubeObject, note: string): void {
  context.metrics.drifts.inc({ kind: object.kind ?? '' });
  recordWarning(context, object, 'Drifted', note);
}

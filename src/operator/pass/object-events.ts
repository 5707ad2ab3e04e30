// Records Events about objects, which users read in `kubectl describe`, and logs them.
import type { EventFacts } from '../../kube/event-recorder.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { OperatorContext } from '../operator-context.ts';

/** The reasons of the Events of every kind. A kind adds its own. */
const COMMON_REASONS = {
  Created: 'Normal',
  Adopted: 'Normal',
  Updated: 'Normal',
  Deleted: 'Normal',
  Released: 'Normal',
  SecretRestored: 'Normal',
  SecretRotated: 'Normal',
  Drifted: 'Warning',
  Refused: 'Warning',
  Conflict: 'Warning',
} as const satisfies Record<string, EventFacts['type']>;
type CommonReason = keyof typeof COMMON_REASONS;

/** `Own`: the reasons of the kind. */
export class ObjectEvents<Own extends string = never> {
  readonly #context: OperatorContext;
  readonly #types: Readonly<Record<CommonReason | Own, EventFacts['type']>>;

  constructor(context: OperatorContext, own: Readonly<Record<Own, EventFacts['type']>>) {
    this.#context = context;
    this.#types = { ...COMMON_REASONS, ...own };
  }

  /** `note` is a sentence without secrets. */
  record(object: KubeObject, reason: CommonReason | Own, note: string): void {
    const { kind, metadata } = object;
    this.#context.events.record(object, { type: this.#types[reason], reason, note });
    this.#context.log.info({ kind, namespace: metadata.namespace, name: metadata.name, reason }, note);
  }

  /** Records that a change made through the API was undone, and counts it. */
  recordDrift(object: KubeObject, note: string): void {
    this.#context.metrics.drifts.inc({ kind: object.kind ?? '' });
    this.record(object, 'Drifted', note);
  }
}

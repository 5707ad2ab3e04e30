// Causes of missed beats that an operator sees in its cluster (docs/contract/incidents.md, "Causes that the operator sees"). Pure.

export const OPERATOR_CAUSES = [
  'node_not_ready',
  'namespace_terminating',
  'image_cannot_be_pulled',
  'quota_exceeded',
] as const;
export type OperatorCause = (typeof OPERATOR_CAUSES)[number];

/** The node, the namespace, the image, or `<namespace>/<quota>`. */
export interface NamedCause {
  cause: OperatorCause;
  object: string;
}

/** One that comes back later is another one, with another id. */
export interface KnownCause extends NamedCause {
  causeId: string;
}

/** What the alert says that names a cause. */
export interface AlertedCause extends KnownCause {
  /** How many it concerns, of those of which the receiver may hear. */
  monitors: number;
}

/**
 * Whether one alert stands for monitors of all projects. A node is not ready for all of them. What a project can bring about itself,
 * such as an image that nobody can pull, must not silence the alerts of others.
 */
export function isOfAll({ cause }: Pick<NamedCause, 'cause'>): boolean {
  return cause === 'node_not_ready';
}

const STATES: Record<OperatorCause, (object: string) => string> = {
  node_not_ready: (object) => `Node ${object} is not ready`,
  namespace_terminating: (object) => `Namespace ${object} is being deleted`,
  image_cannot_be_pulled: (object) => `Image ${object} cannot be pulled`,
  quota_exceeded: (object) => `Quota ${object} has no room for a pod`,
};

/** In words, without a full stop. */
export function causeWords({ cause, object }: NamedCause): string {
  return STATES[cause](object);
}

/** The sentence that the alert gets. */
export function causeSentence(cause: Omit<AlertedCause, 'causeId'>): string {
  const others = cause.monitors > 1 ? `; it concerns ${cause.monitors} monitors` : '';
  return `${causeWords(cause)}${others}.`;
}

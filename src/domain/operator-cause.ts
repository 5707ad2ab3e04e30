// Causes of missed beats that an operator sees in its cluster (docs/contract/incidents.md). Pure.

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

// Which objects a label selector finds, as Kubernetes defines it. Pure.
import type { LabelSelector } from '../../../contract/crd/rule-resource.ts';

type Labels = Readonly<Record<string, string>>;
type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];

/** An empty selector finds everything. */
export function selects(selector: LabelSelector, labels: Labels = {}): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const isEqual = ([key, value]: [string, string]) => labelOf(labels, key) === value;
  return Object.entries(matchLabels).every(isEqual) && matchExpressions.every((one) => isMet(one, labels));
}

function isMet({ key, operator, values = [] }: Requirement, labels: Labels): boolean {
  const value = labelOf(labels, key);
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

/** A label may have the name of what every object has, such as `constructor`. */
function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

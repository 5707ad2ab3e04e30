// The Rule as an object of the cluster: its type, its resource, its cache.
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import type { RuleResourceSpec, RuleResourceStatus } from '../../../contract/crd/rule-resource.ts';
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../../kube/kube-object.ts';
import { ObjectCache } from '../../known/object-cache.ts';

export interface RuleObject extends KubeObject {
  spec: RuleResourceSpec;
  status?: RuleResourceStatus;
}

export type RuleStatusFields = NonNullable<RuleObject['status']>;

export const RULES: KubeResource<RuleObject> = {
  ...CUSTOM_RESOURCES.Rule,
  transform: withoutBookkeeping,
};

/**
 * Has indexes of the Rules that no other release manages: `selecting` those with a selector by namespace, `naming` the others
 * by `namespace/name` of their Monitor, `measurement` all by `namespace/measurementKey`.
 */
export function newRuleCache(release: string): ObjectCache<RuleObject> {
  return new ObjectCache<RuleObject>(undefined, release, {
    selecting: ({ metadata, spec }) => (spec.monitorRef === undefined ? [metadata.namespace ?? ''] : []),
    naming: ({ metadata, spec }) =>
      spec.monitorRef === undefined ? [] : [`${metadata.namespace}/${spec.monitorRef.name}`],
    measurement: ({ metadata, spec }) => [`${metadata.namespace}/${spec.measurementKey}`],
  });
}

/** The Rules that may be about a Monitor, in any order: of ten thousand that name one Monitor each, one. */
export function rulesNear(
  rules: ObjectCache<RuleObject>,
  { metadata: { namespace = '', name } }: KubeObject,
): RuleObject[] {
  return [...rules.listBy('selecting', namespace), ...rules.listBy('naming', `${namespace}/${name}`)];
}

/** The objects that a Rule may be about, in any order. */
export function objectsNear<O extends KubeObject>(
  objects: ObjectCache<O>,
  { metadata: { namespace = '' }, spec }: RuleObject,
): O[] {
  if (spec.monitorRef === undefined) return objects.listInNamespace(namespace);
  const named = objects.get(`${namespace}/${spec.monitorRef.name}`);
  return named === undefined ? [] : [named];
}

// The resources of Kubernetes itself that the operator uses: Secrets (by name only) and namespaces.
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../kube/kube-object.ts';

export interface SecretObject extends KubeObject {
  type?: string;
  immutable?: boolean;
  /** Base64. */
  data?: Record<string, string>;
}

export const SECRETS: KubeResource<SecretObject> = {
  apiVersion: 'v1',
  kind: 'Secret',
  plural: 'secrets',
  namespaced: true,
};

export const NAMESPACES: KubeResource = {
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
  transform: withoutBookkeeping,
};

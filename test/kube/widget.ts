// A custom resource with a status subresource, of no business.

import type { KubeCondition } from '../../src/kube/conditions.ts';
import type { KubeClient } from '../../src/kube/kube-client.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { waitFor } from '../support/wait-for.ts';

export interface Widget extends KubeObject {
  spec?: { size: number };
  status?: { text?: string; conditions?: KubeCondition[] };
}
export const widgets: KubeResource<Widget> = {
  apiVersion: 'kube-test.example.org/v1',
  kind: 'Widget',
  plural: 'widgets',
  namespaced: true,
};
const definitions: KubeResource<KubeObject & { spec: object }> = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  plural: 'customresourcedefinitions',
  namespaced: false,
};
const text = { type: 'string' };
const conditionSchema = {
  type: 'object',
  required: ['type'],
  properties: {
    ...{ type: text, status: text, reason: text, message: text, lastTransitionTime: text },
    observedGeneration: { type: 'integer' },
  },
};
const statusSchema = {
  type: 'object',
  properties: {
    text,
    conditions: {
      type: 'array',
      items: conditionSchema,
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
    },
  },
};
const schema = {
  type: 'object',
  properties: {
    spec: { type: 'object', properties: { size: { type: 'integer' } } },
    status: statusSchema,
  },
};
const definition = {
  metadata: { name: 'widgets.kube-test.example.org' },
  spec: {
    group: 'kube-test.example.org',
    scope: 'Namespaced',
    names: { kind: 'Widget', plural: 'widgets', singular: 'widget', listKind: 'WidgetList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: schema },
      },
    ],
  },
};

/** Makes the kind known to the API server; harmless when it is. */
export async function defineWidgets(client: KubeClient): Promise<void> {
  await client.apply(definitions, definition, { fieldManager: 'kube-test' });
  await waitFor(() => client.list(widgets), { what: 'the kind is served' });
}

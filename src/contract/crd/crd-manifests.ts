// The CustomResourceDefinitions as plain objects, from the schemas of the contract (docs/contract/kubernetes.md).
import type { z } from 'zod';
import { type JsonObject, toJsonSchema } from '../json-schema.ts';
import { type ContractLimits, PUBLISHED_LIMITS } from '../resources/monitor.ts';
import { callbackResourceSpec, callbackResourceStatus } from './callback-resource.ts';
import { API_GROUP, API_VERSION, CUSTOM_RESOURCES, type CustomKind } from './custom-resources.ts';
import { CALLBACK_TEXTS, explainFields, MONITOR_TEXTS, RULE_TEXTS } from './explain-fields.ts';
import { monitorResourceSpec, monitorResourceStatus } from './monitor-resource.ts';
import { ruleResourceSpec, ruleResourceStatus } from './rule-resource.ts';
import { toStructural } from './structural.ts';

interface Column {
  name: string;
  type: 'string' | 'date' | 'boolean';
  jsonPath: string;
  /** Shown only with `-o wide`. */
  wide?: boolean;
}

interface Definition {
  description: string;
  spec: z.ZodType;
  status: z.ZodType;
  columns: Column[];
  /** Paths for `kubectl get --field-selector`: at most eight. API servers before 1.31 ignore them. */
  selectable: readonly string[];
  /** Descriptions of fields, by path. */
  texts: Readonly<Record<string, string>>;
}

const READY: Column = {
  name: 'Ready',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
};
/** The reason of `Ready`, which says more than `Synced` alone could. */
const REASON: Column = {
  name: 'Reason',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  wide: true,
};
const AGE: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };

const MONITOR_COLUMNS: Column[] = [
  { name: 'Health', type: 'string', jsonPath: '.status.health' },
  { name: 'Interval', type: 'string', jsonPath: '.status.display.interval' },
  { name: 'Last Beat', type: 'date', jsonPath: '.status.lastBeatAt' },
  // A string: a date column shows future times as invalid.
  { name: 'Next Deadline', type: 'string', jsonPath: '.status.display.deadline' },
  { name: 'Incident', type: 'string', jsonPath: '.status.display.incident' },
  READY,
  REASON,
  AGE,
  { name: 'Monitor ID', type: 'string', jsonPath: '.status.monitorId', wide: true },
  { name: 'Lifecycle', type: 'string', jsonPath: '.status.lifecycle', wide: true },
  { name: 'Callback', type: 'string', jsonPath: '.status.display.callback', wide: true },
];

const CALLBACK_COLUMNS: Column[] = [
  { name: 'Kind', type: 'string', jsonPath: '.status.kind' },
  { name: 'Lifecycle', type: 'string', jsonPath: '.status.lifecycle' },
  { name: 'Default', type: 'boolean', jsonPath: '.status.isOrganizationDefault' },
  { name: 'Last Delivery', type: 'string', jsonPath: '.status.lastDelivery.state' },
  READY,
  REASON,
  AGE,
];

const RULE_COLUMNS: Column[] = [
  { name: 'Measurement', type: 'string', jsonPath: '.spec.measurementKey' },
  { name: 'Rollout', type: 'string', jsonPath: '.spec.rollout' },
  { name: 'Monitors', type: 'string', jsonPath: '.status.display.monitors' },
  READY,
  REASON,
  AGE,
];

// With a definition go all its objects. A tool that deletes what it installed (Argo CD, helm) keeps them.
const KEEP: JsonObject = {
  'argocd.argoproj.io/sync-options': 'Delete=false,Prune=false',
  'helm.sh/resource-policy': 'keep',
};

/** The CRDs by file name. A development run passes lower floors; the committed files have 60 seconds. */
export function crdManifests(limits: ContractLimits = PUBLISHED_LIMITS): Record<string, JsonObject> {
  const definitions: Readonly<Record<CustomKind, Definition>> = {
    Monitor: {
      description:
        'A monitor of a job: the job sends a beat at each run, and a beat that does not come in time opens an incident and sends an alert.',
      spec: monitorResourceSpec(limits),
      status: monitorResourceStatus,
      columns: MONITOR_COLUMNS,
      selectable: ['.status.health', '.status.lifecycle', '.status.monitorId', '.status.projectId'],
      texts: MONITOR_TEXTS,
    },
    Callback: {
      description:
        'A callback endpoint: an address that alerts are sent to, signed with a secret of its own.',
      spec: callbackResourceSpec,
      status: callbackResourceStatus,
      columns: CALLBACK_COLUMNS,
      selectable: ['.status.alias', '.status.lifecycle', '.status.endpointId', '.status.projectId'],
      texts: CALLBACK_TEXTS,
    },
    Rule: {
      description:
        'A measurement rule for one Monitor or many: it is applied to them, or replayed over what they have measured.',
      spec: ruleResourceSpec,
      status: ruleResourceStatus,
      columns: RULE_COLUMNS,
      selectable: ['.spec.measurementKey', '.spec.rollout'],
      texts: RULE_TEXTS,
    },
  };
  return Object.fromEntries(
    Object.values(CUSTOM_RESOURCES).map((resource) => [
      `${resource.plural}.yaml`,
      customResourceDefinition(resource, definitions[resource.kind]),
    ]),
  );
}

function customResourceDefinition(
  { kind, plural, shortName }: (typeof CUSTOM_RESOURCES)[CustomKind],
  { description, spec, status, columns, selectable, texts }: Definition,
): JsonObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${API_GROUP}`, annotations: KEEP },
    spec: {
      group: API_GROUP,
      scope: 'Namespaced',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [shortName],
        categories: ['beatkeeper'],
      },
      versions: [
        {
          name: API_VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns.map(({ wide, ...column }) => ({
            ...column,
            ...(wide ? { priority: 1 } : {}),
          })),
          selectableFields: selectable.map((jsonPath) => ({ jsonPath })),
          schema: {
            openAPIV3Schema: {
              description,
              type: 'object',
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: explainFields(toStructural(toJsonSchema(spec)), 'spec', texts),
                // The empty default makes that of its conditions count.
                status: {
                  ...explainFields(toStructural(toJsonSchema(status)), 'status', texts),
                  default: {},
                },
              },
            },
          },
        },
      ],
    },
  };
}

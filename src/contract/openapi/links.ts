// The links of the OpenAPI document: from an answer that names a thing to the operations on that thing. Tools follow them
// from a creation, or from a list, to all that can be done next.
import type { JsonObject } from '../json-schema.ts';
import type { OperationSpec } from '../operations/operation.ts';
import type { OperationId, PathParameter } from '../operations/operations.ts';

type Pointers = Partial<Record<PathParameter, string>>;

const incident: Pointers = { incidentId: '/items/0/incidentId' };
const delivery: Pointers = { deliveryId: '/items/0/deliveryId' };

/**
 * Where the answer to an operation names a thing: JSON pointers (RFC 6901). From a creation with its ETag; from a list for
 * those who only read, and for what the service makes.
 */
export const LINK_SOURCES: Partial<Record<OperationId, Pointers>> = {
  createMonitor: { monitorId: '/monitorId' },
  createDraft: { monitorId: '/monitorKey', draftId: '/id' },
  createCallback: { endpointId: '/endpoint/id' },
  createProject: { projectId: '/projectId' },
  createCredential: { credentialId: '/credential/credentialId' },
  listDrafts: { monitorId: '/items/0/monitorKey', draftId: '/items/0/id' },
  listMonitors: { monitorId: '/items/0/monitorId' },
  listCallbacks: { endpointId: '/items/0/id' },
  listProjects: { projectId: '/items/0/projectId' },
  listCredentials: { credentialId: '/items/0/credentialId' },
  listIncidents: incident,
  listMonitorIncidents: incident,
  listDeliveries: delivery,
  listIncidentDeliveries: delivery,
};

/** The links of an operation's success, by the operation that they lead to; undefined without any. */
export function linksOf(source: OperationSpec, operations: readonly OperationSpec[]): JsonObject | undefined {
  const pointers = LINK_SOURCES[source.operationId as OperationId];
  if (!pointers) return undefined;
  // The operator has no calls to chain: it is no reader of this document.
  const targets = operations.filter((spec) => spec.preset !== 'operator' && isNamed(spec, pointers));
  return Object.fromEntries(targets.map((target) => [target.operationId, linkTo(target, source, pointers)]));
}

/** Whether the pointers name all that the path of an operation does. */
function isNamed({ params }: OperationSpec, pointers: Pointers): boolean {
  const names = Object.keys(params?.shape ?? {});
  return names.length > 0 && names.every((name) => name in pointers);
}

function linkTo(target: OperationSpec, source: OperationSpec, pointers: Pointers): JsonObject {
  const named = Object.keys(target.params?.shape ?? {}).map((name) => [
    `path.${name}`,
    `$response.body#${pointers[name as PathParameter]}`,
  ]);
  const takesTag = target.ifMatch !== undefined && target.ifMatch === source.etag;
  return {
    operationId: target.operationId,
    parameters: {
      ...Object.fromEntries(named),
      ...(takesTag ? { 'header.If-Match': '$response.header.ETag' } : {}),
    },
  };
}

// A project with one of each thing that a path of the contract names, and the examples of the contract as requests on
// these things. So a test can go through all operations, and has new ones the day they are added.
import { randomUUID } from 'node:crypto';
import { type EtagKind, formatEtag } from '../../src/contract/fields/headers.ts';
import { exampleOf } from '../../src/contract/openapi/examples/examples.ts';
import { ALIAS, ENDPOINT_URL, ID, MONITOR, OPERATOR } from '../../src/contract/openapi/examples/records.ts';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import {
  contractOperations,
  type OperationId,
  type PathParameter,
} from '../../src/contract/operations/operations.ts';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { MIN_VALUES } from '../../src/domain/rules/suggest.ts';
import type { ApiClient, ApiRequest } from './api-client.ts';
import { sendMeasured } from './send-measured.ts';

export type Operation = OperationSpec & { operationId: OperationId };

/** Every operation of the contract. */
export const OPERATIONS: readonly Operation[] = Object.values(contractOperations());

/** Nothing listens there. */
export const CLOSED_URL = 'http://127.0.0.1:9/hook';

export type Ids = Readonly<Record<PathParameter, string>>;

export interface FilledProject {
  ids: Ids;
  alias: string;
  /** Where beats of the monitor go. */
  address: string;
}

/** Clients of one project. */
interface Clients {
  manage: ApiClient;
  owner: ApiClient;
}

/** Where the monitor of a filled project is, in an installation with several databases. */
export interface FilledPlace {
  jurisdiction: Jurisdiction;
  /** Copies the endpoint there. */
  copyDirectory(): Promise<void>;
}

/** Makes one of each: an endpoint, a monitor bound to it whose run has failed, its incident, delivery and draft, a credential. */
export async function fillProject({ manage, owner }: Clients, place?: FilledPlace): Promise<FilledProject> {
  const alias = `endpoint-${randomUUID()}`;
  const monitorId = `monitor-${randomUUID()}`;
  const made = await manage.expectSuccess('createCallback', { body: { alias, url: CLOSED_URL } });
  await place?.copyDirectory();
  const { jurisdiction } = place ?? {};
  const { body: monitor } = await manage.expectSuccess('createMonitor', {
    body: { monitorId, name: monitorId, jurisdiction, callback: { kind: 'named', alias } },
  });
  const { projectId, publishUrl = '' } = monitor;
  const address = `${manage.url}${new URL(publishUrl).pathname}`;
  await fetch(`${address}/fail`);
  const incidents = await manage.expectSuccess('listMonitorIncidents', { params: { monitorId } });
  const incidentId = incidents.body.items[0]?.incidentId ?? '';
  const deliveries = await manage.expectSuccess('listIncidentDeliveries', { params: { incidentId } });
  const proposal = { measurementKey: 'rows', definition: { minimum: 1 } };
  const draft = await manage.expectSuccess('createDraft', { params: { monitorId }, body: { proposal } });
  const issued = await owner.expectSuccess('createCredential', { body: { name: alias, preset: 'read' } });
  return {
    alias,
    address,
    ids: {
      monitorId,
      projectId,
      incidentId,
      draftId: draft.body.id,
      endpointId: made.body.endpoint.id,
      deliveryId: deliveries.body.items[0]?.deliveryId ?? '',
      credentialId: issued.body.credential.credentialId,
      operatorId: `beatkeeper/${randomUUID()}`,
    },
  };
}

/** Ids of the same form that nothing has. */
export function absentIds(ids: Ids): Ids {
  const other = (id: string) => `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`;
  return Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, other(id)])) as Ids;
}

/** The names in the path of an operation. */
export function pathNames(spec: OperationSpec): PathParameter[] {
  return Object.keys(spec.params?.shape ?? {}) as PathParameter[];
}

/** Whether the query of an operation has this parameter. */
export function hasQuery(spec: OperationSpec, name: string): boolean {
  return spec.query !== undefined && name in spec.query.shape;
}

/** Fields that a creation chooses: they must be new. */
const CHOSEN = ['monitorId', 'alias', 'name'];

/** The example of an operation, on the things of this project. What it creates has a new name each time. */
export function requestOn({ ids, alias }: FilledProject, spec: OperationSpec): ApiRequest {
  const { query, body } = exampleOf(spec.operationId);
  const real: [string, string][] = [
    [ID.project, ids.projectId],
    [ID.credential, ids.credentialId],
    [ID.endpoint, ids.endpointId],
    [ID.incident, ids.incidentId],
    [ID.delivery, ids.deliveryId],
    [ID.draft, ids.draftId],
    [ID.otherDraft, ids.draftId],
    [MONITOR, ids.monitorId],
    [OPERATOR, ids.operatorId],
    [ALIAS, alias],
    [ENDPOINT_URL, CLOSED_URL],
  ];
  const toReal = (text: string) => real.reduce((done, [example, own]) => done.replaceAll(example, own), text);
  const located = (value: unknown) => mapTexts(value, toReal);
  const stated = located(body) as Record<string, unknown> | undefined;
  const chosen = CHOSEN.filter((name) => spec.success === 201 && stated && name in stated);
  return {
    params: Object.fromEntries(pathNames(spec).map((name) => [name, ids[name]])),
    query: located(query) as Record<string, unknown> | undefined,
    body: stated && { ...stated, ...Object.fromEntries(chosen.map((name) => [name, `new-${randomUUID()}`])) },
    ifMatch: spec.ifMatch && formatEtag(spec.ifMatch, 1),
  };
}

/** The same value with other texts. */
function mapTexts(value: unknown, toText: (text: string) => string): unknown {
  if (typeof value === 'string') return toText(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, toText));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapTexts(inner, toText)]));
}

/** The example of an operation as a call that succeeds, on things of its own in this project. */
export async function newRequestFor(
  clients: Clients,
  spec: Operation,
  place?: FilledPlace,
): Promise<ApiRequest> {
  const filled = await fillProject(clients, place);
  if (spec.operationId === 'suggestRule') await sendMeasured(filled.address, MIN_VALUES);
  const request = requestOn(filled, spec);
  if (place && spec.operationId === 'createMonitor')
    request.body = { ...(request.body as object), jurisdiction: place.jurisdiction };
  return {
    ...request,
    ifMatch: spec.ifMatch && (await readEtag(clients, spec.ifMatch, filled.ids)),
    idempotencyKey: spec.idempotent ? randomUUID() : undefined,
  };
}

/** The ETag that a change of this kind takes now. */
async function readEtag({ manage, owner }: Clients, kind: EtagKind, ids: Ids): Promise<string> {
  const { monitorId, endpointId, projectId, credentialId } = ids;
  const read: Record<EtagKind, () => Promise<{ etag: string }>> = {
    configuration: () => manage.call('getMonitor', { params: { monitorId } }),
    'callback-endpoint': () => manage.call('getCallback', { params: { endpointId } }),
    project: () => owner.call('getProject', { params: { projectId } }),
    credential: () => owner.call('getCredential', { params: { credentialId } }),
  };
  return (await read[kind]()).etag;
}

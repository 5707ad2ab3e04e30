// Callback endpoints as the API shows them (docs/contract/callbacks.md): addresses opened, secrets once. Who may only
// read sees no more of an address than its origin (docs/contract/tenancy.md).
import type { OperationOutput } from '../../contract/operations/operations.ts';
import type { CallbackEndpoint, SigningSecret } from '../../contract/resources/callback.ts';
import type { CallbackChange } from '../../contract/resources/change.ts';
import type { Declaration, EndpointOrigin } from '../../domain/origin.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { Target } from '../../service/callbacks/callback-targets.ts';
import { type IssuedSecret, openUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { Caller, ServiceContext } from '../../service/calls/context.ts';
import type { EndpointRow } from '../../store/callbacks/callback-endpoints.ts';
import type { EndpointChangeRecord } from '../../store/callbacks/endpoint-changes.ts';

/** Who looks, and what opens the addresses. */
export interface Viewer {
  context: Pick<ServiceContext, 'publicUrl' | 'secrets'>;
  caller: Pick<Caller, 'mayManage' | 'isOperator'>;
}

/** The URL of an endpoint for a caller. The path of a webhook often is a secret: who may only read sees the origin. */
export function visibleUrl(url: string, { mayManage }: Viewer['caller']): string {
  return mayManage ? url : new URL(url).origin;
}

export function presentCallback(row: EndpointRow, { context, caller }: Viewer): CallbackEndpoint {
  const { secret, lastDelivery: last } = row;
  return {
    id: row.endpointId,
    projectId: row.projectId,
    alias: row.alias ?? '',
    kind: row.kind,
    url: row.urlBox && visibleUrl(openUrl(context.secrets, row, row.urlBox), caller),
    relay: row.relay,
    relayGroup: row.relayGroup,
    origin: row.origin && presentOrigin(row.origin, caller),
    lifecycle: row.lifecycle,
    isOrganizationDefault: row.isOrganizationDefault,
    generation: row.generation,
    createdAt: toTime(row.createdMs),
    updatedAt: toTime(row.updatedMs),
    disabledAt: optionalTime(row.disabledMs),
    disabledReason: row.disabledReason,
    secret: secret && {
      version: secret.version,
      issuedAt: toTime(secret.issuedMs),
      previousVersion: secret.previous?.version,
      overlapEndsAt: optionalTime(secret.previous?.endsMs),
    },
    lastDelivery: last && { at: toTime(last.atMs), state: last.state, statusCode: last.statusCode },
  };
}

function presentOrigin(
  { kind, namespace, name, ...declaration }: EndpointOrigin,
  caller: Viewer['caller'],
): CallbackEndpoint['origin'] {
  return { kind, namespace, name, ...presentDeclaration(declaration, caller) };
}

/** What the operator alone sees of an origin. */
export function presentDeclaration({ uid, ownedFields }: Declaration, { isOperator }: Viewer['caller']) {
  return isOperator ? { uid, ownedFields: ownedFields && [...ownedFields] } : {};
}

export function presentCallbackChange(record: EndpointChangeRecord): CallbackChange {
  const { change, details, generation, actor, occurredMs, sourceRequestId } = record;
  const occurredAt = toTime(occurredMs);
  const common = { actor, configurationVersion: generation, occurredAt, sourceRequestId, ...details };
  const { kind, action } = change;
  if (kind === 'configuration') return { ...common, kind, action };
  return { ...common, kind, action, lifecycleFrom: change.from, lifecycleTo: change.to };
}

/** At the one moment at which the secret can be read. */
export function presentSigningSecret(issued: IssuedSecret): SigningSecret {
  return {
    secret: issued.secret,
    version: issued.version,
    revealedAt: toTime(issued.issuedMs),
    onlyShownOnce: true,
    previousVersion: issued.previous?.version,
    overlapEndsAt: optionalTime(issued.previous?.endsMs),
  };
}

/** Where the alerts of a monitor of this project go now. Of another project's endpoint the id and kind alone are shown. */
export function presentTarget(
  { endpointId, projectId, alias, kind, urlBox }: Target,
  monitor: { projectId: string },
  { context, caller }: Viewer,
): OperationOutput<'getMonitorBinding'>['target'] {
  if (projectId !== monitor.projectId) return { endpointId, kind };
  const url = urlBox && visibleUrl(openUrl(context.secrets, { projectId, endpointId }, urlBox), caller);
  return { endpointId, alias, kind, url };
}

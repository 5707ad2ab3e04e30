// Callback endpoints as the API shows them (docs/contract/callbacks.md): addresses opened, secrets once.
import type { OperationOutput } from '../../contract/operations/operations.ts';
import type { CallbackEndpoint, SigningSecret } from '../../contract/resources/callback.ts';
import { optionalTime, toTime } from '../../domain/timestamp.ts';
import type { Target } from '../../service/callbacks/callback-targets.ts';
import { type IssuedSecret, openUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { EndpointRow } from '../../store/callbacks/callback-endpoints.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';

export function presentCallback(row: EndpointRow, secrets: SecretBox): CallbackEndpoint {
  const { secret, lastDelivery: last } = row;
  return {
    id: row.endpointId,
    projectId: row.projectId,
    alias: row.alias ?? '',
    kind: row.kind,
    url: row.urlBox && openUrl(secrets, row.endpointId, row.urlBox),
    relay: row.relay,
    relayGroup: row.relayGroup,
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

/** Where the alerts of a monitor go now. */
export function presentTarget(
  { endpointId, alias, kind, urlBox }: Target,
  secrets: SecretBox,
): OperationOutput<'getMonitorBinding'>['target'] {
  return { endpointId, alias, kind, url: urlBox && openUrl(secrets, endpointId, urlBox) };
}

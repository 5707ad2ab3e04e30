// The desired state of a callback endpoint, and the patch that leads to it. Pure.
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { CallbackEndpoint } from '../../../contract/resources/callback.ts';
import { SIGNING_OVERLAP_SECONDS } from '../../../domain/defaults.ts';
import { contentHash } from '../../pass/desired-hash.ts';
import { defaultAlias } from '../../pass/identity.ts';
import type { Desired } from '../../pass/kind.ts';
import { releasedFields } from '../../pass/status.ts';
import { SECRET_SUFFIX } from '../../resources/names.ts';
import type { CallbackObject } from './callback-object.ts';

type Spec = CallbackObject['spec'];
type EndpointPatch = OperationRequest<'updateCallback'>['body'];

export interface DesiredCallback extends Desired {
  spec: Spec;
  kind: NonNullable<Spec['kind']>;
  defaultAlias: string;
  /** The address of a webhook, from the spec or from the Secret that the spec names. */
  url: string | undefined;
  /** Undefined for kinds without a signing secret. */
  secretName: string | undefined;
  overlapSeconds: number;
}

/** docs/contract/kubernetes.md, "Ownership of fields". */
const OWNABLE = ['alias', 'lifecycle', 'organizationDefault'] as const;

export function desiredCallback(
  object: CallbackObject,
  facts: { id: string; projectId: string; url: string | undefined },
): DesiredCallback {
  const { spec, metadata } = object;
  const { id, projectId, url } = facts;
  const kind = spec.kind ?? 'webhook';
  const desired = {
    ...{ projectId, url, kind },
    defaultAlias: defaultAlias(metadata.name),
    secretName: kind === 'webhook' ? signingSecretNameOf(object) : undefined,
  };
  const { deletionPolicy: _policy, rotation: _rotation, ...told } = spec;
  return {
    ...{ ...desired, id, spec },
    overlapSeconds: spec.rotation?.overlapSeconds ?? SIGNING_OVERLAP_SECONDS,
    ownedFields: OWNABLE.filter((field) => spec[field] !== undefined).sort(),
    // The id does not count: the next id may replace it, with the same spec.
    hash: contentHash({ ...desired, endpointId: '', told }),
  };
}

/** The Secret of a webhook; other kinds have none. */
export function signingSecretNameOf({ spec, metadata }: CallbackObject): string {
  return spec.signingSecretName ?? `${metadata.name}${SECRET_SUFFIX.callback}`;
}

/** The body of POST /v1/callbacks. The lifecycle is set afterwards. */
export function createCallbackBodyOf(desired: DesiredCallback): OperationRequest<'createCallback'>['body'] {
  const { spec, kind, id: endpointId, url } = desired;
  return {
    endpointId,
    alias: spec.alias ?? desired.defaultAlias,
    kind,
    url,
    relay: spec.relay,
    relayGroup: spec.relayGroup,
  };
}

export interface CallbackPlan {
  /** Undefined: nothing differs. */
  patch: EndpointPatch | undefined;
  fields: string[];
}

/** `isChanged`: the spec differs from the one that was applied last. */
export function planCallback(
  desired: DesiredCallback,
  facts: { endpoint: CallbackEndpoint; owned: readonly string[] | undefined; isChanged: boolean },
): CallbackPlan {
  const { endpoint, isChanged } = facts;
  const { spec, url } = desired;
  const released = releasedFields(facts.owned, desired.ownedFields);
  const patch: EndpointPatch = {};
  const alias = spec.alias ?? (released.has('alias') ? desired.defaultAlias : undefined);
  if (alias !== undefined && alias !== endpoint.alias) patch.alias = alias;
  if (url !== undefined && url !== endpoint.url) patch.url = url;
  if (spec.relay && !isSame(spec.relay, endpoint.relay)) patch.relay = spec.relay;
  if (spec.relayGroup && !isSame(spec.relayGroup, endpoint.relayGroup)) patch.relayGroup = spec.relayGroup;
  const lifecycle = spec.lifecycle ?? (released.has('lifecycle') ? 'active' : undefined);
  if (isDisabledByReceiver(endpoint)) {
    // Only a change of the spec activates it again: then the receiver may be back.
    const isNew = isChanged || patch.url !== undefined;
    if (lifecycle === 'active' ? isNew : lifecycle === undefined && isNew) patch.lifecycle = 'active';
  } else if (lifecycle !== undefined && lifecycle !== endpoint.lifecycle) patch.lifecycle = lifecycle;
  const fields = Object.keys(patch);
  return { patch: fields.length === 0 ? undefined : patch, fields };
}

/** The receiver answered 410, and the service disabled the endpoint. */
export function isDisabledByReceiver({ lifecycle, disabledReason }: CallbackEndpoint): boolean {
  return lifecycle === 'disabled' && disabledReason !== undefined;
}

function isSame(desired: object, current: object | undefined): boolean {
  return Object.entries(desired).every(([field, value]) =>
    Object.entries(current ?? {}).some(([f, v]) => f === field && v === value),
  );
}

/** `12h` or `90d` in milliseconds; undefined without a rotation. */
export function rotationEveryMs({ rotation }: Spec): number | undefined {
  const match = /^(\d+)([hd])$/.exec(rotation?.every ?? '');
  return match ? Number(match[1]) * (match[2] === 'd' ? 86_400_000 : 3_600_000) : undefined;
}

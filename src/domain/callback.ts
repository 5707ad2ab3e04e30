// The words of callbacks (docs/contract/callbacks.md): bindings, endpoints and deliveries. Contract, store and use cases
// share them; the orders are those of the published lists.
import { INCIDENT_EVENTS } from './incident.ts';

export const BINDING_KINDS = ['organization_default', 'named', 'inline', 'disabled'] as const;
export type BindingKind = (typeof BINDING_KINDS)[number];

/** Why the alerts of a binding have no endpoint to go to. */
export const UNAVAILABLE_REASONS = [
  'no_organization_default',
  'alias_not_found',
  'endpoint_disabled',
  'endpoint_removed',
] as const;
export type UnavailableReason = (typeof UNAVAILABLE_REASONS)[number];

export const ENDPOINT_KINDS = ['webhook', 'relay_subscriber', 'relay_group'] as const;
export type EndpointKind = (typeof ENDPOINT_KINDS)[number];

/** The field that states the destination of a kind. */
export const DESTINATION_FIELD = {
  webhook: 'url',
  relay_subscriber: 'relay',
  relay_group: 'relayGroup',
} as const satisfies Record<EndpointKind, string>;

/** Who is told by an endpoint of a relay kind: one person, or without an actor everyone in the organization. */
export interface RelayDestination {
  actorId?: string;
  notifierId: string;
}

export const ENDPOINT_LIFECYCLES = ['active', 'disabled'] as const;
export type EndpointLifecycle = (typeof ENDPOINT_LIFECYCLES)[number];

export const DELIVERY_EVENTS = [...INCIDENT_EVENTS, 'callback.test'] as const;
export type DeliveryEvent = (typeof DELIVERY_EVENTS)[number];

/** Why deliveries are canceled: `detail.reason` of their entries in timelines. */
export type CancellationReason = 'endpoint_disabled' | 'endpoint_removed' | 'monitor_deleted';

export const DELIVERY_STATES = ['pending', 'delivered', 'failing', 'exhausted', 'canceled'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

// The status and the conditions of a Callback from the API's answers about its endpoint. Pure.
import type { CallbackEndpoint } from '../../../contract/resources/callback.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { KindStatus } from '../../pass/kind.ts';
import type { CallbackObject, DefaultRank } from './callback-object.ts';
import { isDisabledByReceiver } from './desired-callback.ts';

/**
 * Undefined endpoint or rank: the fields or the condition of the status stay. The kind cannot change: also a Callback
 * without an endpoint shows the one that it asks for.
 */
export function callbackStatusOf(
  { spec }: CallbackObject,
  endpoint: CallbackEndpoint | undefined,
  rank: DefaultRank | undefined,
): KindStatus {
  return {
    fields: endpoint === undefined ? { kind: spec.kind ?? 'webhook' } : endpointFields(endpoint),
    conditions: rank === undefined ? [] : defaultCondition(rank),
    removed: rank?.state === 'not_asked' ? ['Default'] : [],
  };
}

function endpointFields(endpoint: CallbackEndpoint): NonNullable<CallbackObject['status']> {
  const { alias, kind, lifecycle, isOrganizationDefault, generation, secret, lastDelivery } = endpoint;
  return {
    ...{ alias, kind, lifecycle, isOrganizationDefault, generation, lastDelivery },
    secretVersion: secret?.version,
  };
}

function defaultCondition(rank: DefaultRank): ConditionFacts[] {
  const type = 'Default';
  switch (rank.state) {
    case 'not_asked':
      return [];
    case 'first':
      return [
        {
          type,
          status: 'True',
          reason: 'OldestWins',
          message: "This is the organization's default endpoint.",
        },
      ];
    case 'older_exists': {
      const message = `The Callback ${rank.holder} is older and is the organization's default endpoint.`;
      return [{ type, status: 'False', reason: 'OlderExists', message }];
    }
    case 'not_allowed': {
      const message =
        'This namespace may not provide the default endpoint: add it to operator.defaultCallbackNamespaces of the chart.';
      return [{ type, status: 'False', reason: 'NotAllowed', message }];
    }
  }
}

/** Whether the endpoint is as somebody who reads the spec expects: receives alerts, or is disabled on purpose. */
export function callbackReady({ spec }: CallbackObject, endpoint: CallbackEndpoint): ConditionFacts {
  const no = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'False',
    reason,
    message,
  });
  if (spec.lifecycle === 'disabled' && endpoint.lifecycle === 'disabled') {
    const message =
      'The endpoint is disabled, as the spec says, and nothing is sent to it. To enable it, set lifecycle to active.';
    return { type: 'Ready', status: 'True', reason: 'Disabled', message };
  }
  if (isDisabledByReceiver(endpoint)) {
    const message =
      'The receiver answered 410 Gone, so the API disabled the endpoint: change the spec to activate it again.';
    return no('DisabledByReceiver', message);
  }
  if (endpoint.lifecycle === 'disabled') {
    const message =
      'The endpoint was disabled through the API, and nothing is sent to it. To enable it, set lifecycle to active; if it is meant to be so, set lifecycle to disabled.';
    return no('EndpointDisabled', message);
  }
  return {
    type: 'Ready',
    status: 'True',
    reason: 'Available',
    message: 'The endpoint receives the alerts that are bound to it.',
  };
}

// Status and conditions of a Callback from what the API says of its endpoint. Pure.
import type { CallbackEndpoint } from '../../../contract/resources/callback.ts';
import {
  type ConditionFacts,
  type KubeCondition,
  removeCondition,
  setCondition,
} from '../../../kube/conditions.ts';
import type { CallbackObject } from './callback-object.ts';
import type { DefaultRank } from './default-callback.ts';
import { isDisabledByReceiver } from './wanted-callback.ts';

export type CallbackStatusObject = NonNullable<CallbackObject['status']>;

export interface CallbackStatusFacts {
  object: CallbackObject;
  nowMs: number;
  /** Undefined: what the status has stays. */
  endpoint?: CallbackEndpoint;
  fields: Partial<
    Pick<
      CallbackStatusObject,
      'endpointId' | 'projectId' | 'ownedFields' | 'specHash' | 'signingSecretRef' | 'lastRotation'
    >
  >;
  conditions: readonly ConditionFacts[];
  /** False: this generation is not reconciled yet. Default true. */
  isObserved?: boolean;
  /** Undefined: what the condition says stays. */
  rank?: DefaultRank;
}

export function callbackStatusOf(facts: CallbackStatusFacts): CallbackStatusObject {
  const { object, endpoint, fields } = facts;
  const previous = object.status ?? {};
  return {
    ...previous,
    ...fields,
    observedGeneration: facts.isObserved === false ? previous.observedGeneration : object.metadata.generation,
    ...(endpoint === undefined ? {} : endpointFields(endpoint)),
    conditions: conditionsOf(facts, previous.conditions ?? []),
  };
}

function endpointFields(endpoint: CallbackEndpoint): Partial<CallbackStatusObject> {
  const { alias, kind, lifecycle, isOrganizationDefault, generation, secret, lastDelivery } = endpoint;
  return {
    ...{ alias, kind, lifecycle, isOrganizationDefault, generation, lastDelivery },
    secretVersion: secret?.version,
  };
}

function conditionsOf({ object, nowMs, conditions, rank }: CallbackStatusFacts, previous: KubeCondition[]) {
  const moment = { generation: object.metadata.generation, nowMs };
  const ranked = rank === undefined ? [] : defaultCondition(rank);
  const kept = rank?.state === 'not_asked' ? removeCondition(previous, 'Default') : previous;
  return [...conditions, ...ranked].reduce((all, condition) => setCondition(all, condition, moment), kept);
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
        'The namespace may not give the default endpoint: operator.defaultCallbackNamespaces of the chart does not name it.';
      return [{ type, status: 'False', reason: 'NotAllowed', message }];
    }
  }
}

/** Whether alerts can be sent to it. */
export function callbackReady(endpoint: CallbackEndpoint): ConditionFacts {
  const no = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'False',
    reason,
    message,
  });
  if (isDisabledByReceiver(endpoint)) {
    const message =
      'The receiver answered 410 Gone, so the endpoint was disabled: change the spec when it is back.';
    return no('DisabledByReceiver', message);
  }
  if (endpoint.lifecycle === 'disabled')
    return no('EndpointDisabled', 'The endpoint is disabled and gets no alerts.');
  return {
    type: 'Ready',
    status: 'True',
    reason: 'Available',
    message: 'The endpoint gets the alerts bound to it.',
  };
}

// The conditions of a Monitor from what is known of it (docs/contract/kubernetes.md, "Conditions"). Pure.
import type { OperationOutput } from '../../../contract/operations/operations.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';

export type BindingState = OperationOutput<'getMonitorBinding'>;

/** Why an object is not as its spec says. `reason` is CamelCase, `message` a sentence. */
export interface Fault {
  reason: string;
  message: string;
}

export function syncedCondition(fault?: Fault): ConditionFacts {
  if (fault) return { type: 'Synced', status: 'False', ...fault };
  return {
    type: 'Synced',
    status: 'True',
    reason: 'ReconcileSuccess',
    message: 'The API has what the spec says.',
  };
}

/** Before the first reconcile has ended. */
export function pendingCondition(type: 'Synced' | 'Ready'): ConditionFacts {
  return { type, status: 'Unknown', reason: 'Reconciling', message: 'The first reconcile is under way.' };
}

/**
 * Whether the monitor can be beaten and can alert. `callbackRef.endpointId` is the endpoint that alerts must lead to;
 * `isMissing`: there is no such Callback.
 */
export function monitorReady(facts: {
  lifecycle: CachedMonitorStatus['lifecycle'];
  binding: BindingState | undefined;
  callbackRef?: { name: string; endpointId: string | undefined; isMissing?: boolean };
}): ConditionFacts {
  const no = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'False',
    reason,
    message,
  });
  const yes = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'True',
    reason,
    message,
  });
  const { lifecycle, binding, callbackRef } = facts;
  // What was put away on purpose needs no callback.
  if (lifecycle === 'archived') return yes('Archived', 'The monitor is archived and takes no beats.');
  if (binding === undefined) return no('CallbackUnknown', 'Where alerts go is not known yet.');
  if (callbackRef && callbackRef.endpointId === undefined) {
    const words = callbackRef.isMissing
      ? `There is no Callback ${callbackRef.name} in this namespace: make it, or name another one.`
      : `The Callback ${callbackRef.name} has no endpoint yet: look at its conditions.`;
    return no('CallbackNotFound', words);
  }
  const fault = bindingFault(binding);
  if (fault) return no(fault.reason, fault.message);
  if (callbackRef && binding.target?.endpointId !== callbackRef.endpointId) {
    return no(
      'CallbackNotFound',
      `Alerts do not lead to the endpoint of the Callback ${callbackRef.name} yet.`,
    );
  }
  if (binding.binding.kind === 'disabled')
    return yes('Available', 'The monitor takes beats; its alerts go nowhere.');
  return yes('Available', 'The monitor takes beats and can alert.');
}

function bindingFault({ binding, unavailableReason }: BindingState): Fault | undefined {
  if (unavailableReason === undefined) return undefined;
  const named = binding.kind === 'named' ? ` ${binding.alias}` : '';
  if (unavailableReason === 'endpoint_disabled') {
    return {
      reason: 'EndpointDisabled',
      message: `The callback endpoint${named} is disabled: make it active.`,
    };
  }
  if (binding.kind === 'organization_default') {
    const message = 'The organization has no default callback endpoint: make one, or name a callback here.';
    return { reason: 'NoOrganizationDefault', message };
  }
  const message = `There is no callback endpoint${named} in the project: make it, or name another one.`;
  return { reason: 'CallbackNotFound', message };
}

const WORDS: Readonly<
  Record<CachedMonitorStatus['status']['health'], readonly [reason: string, message: string]>
> = {
  up: ['Up', 'The last beat came in time.'],
  late: ['Late', 'The next beat is late, and still inside the grace.'],
  down: ['Down', 'A deadline was missed, a run failed or is overdue, or a critical rule is violated.'],
  recovering: ['Recovering', 'Beats come again; the incident is not over yet.'],
  maintenance: ['Maintenance', 'A maintenance window runs.'],
  waiting: ['Waiting', 'The first beat has not come yet.'],
  paused: ['Paused', 'The monitor is paused.'],
  archived: ['Archived', 'The monitor is archived.'],
};

/** `False` while down or with an open incident of warning or more; `Unknown` while nothing is expected. */
export function healthyCondition(live: CachedMonitorStatus['status'] | undefined): ConditionFacts {
  if (live === undefined) {
    return {
      type: 'Healthy',
      status: 'Unknown',
      reason: 'Unknown',
      message: 'The state of the monitor is not known yet.',
    };
  }
  const [reason, message] = WORDS[live.health];
  if (live.health === 'paused' || live.health === 'archived') {
    return { type: 'Healthy', status: 'Unknown', reason, message };
  }
  if (live.health === 'down') return { type: 'Healthy', status: 'False', reason, message };
  const open = live.openIncidents.find(({ state, severity }) => state === 'open' && severity !== 'info');
  if (open) {
    const words = `An incident of severity ${open.severity} is open: ${open.kind}.`;
    return { type: 'Healthy', status: 'False', reason: 'IncidentOpen', message: words };
  }
  return { type: 'Healthy', status: live.health === 'waiting' ? 'Unknown' : 'True', reason, message };
}

// Objects and records of the operator's unit tests; a test states only the fields that it is about.
import type { CallbackEndpoint } from '../../../src/contract/resources/callback.ts';
import type { Monitor, MonitorStatus } from '../../../src/contract/resources/monitor.ts';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import type { CallbackObject } from '../../../src/operator/kinds/callback/callback-object.ts';
import { type DesiredMonitor, desiredMonitor } from '../../../src/operator/kinds/monitor/desired-monitor.ts';
import type { MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import {
  type MonitorPlan,
  type MonitorPlanFacts,
  planMonitor,
} from '../../../src/operator/kinds/monitor/monitor-plan.ts';
import type { OpenIncident } from '../../../src/operator/kinds/monitor/monitor-status.ts';
import type { GivenRule } from '../../../src/operator/kinds/rule/apply/given-rules.ts';

export const NOW = Date.parse('2026-03-01T12:00:00Z');
const createdAt = '2026-01-01T00:00:00.000Z';
const uid = '11111111-2222-3333-4444-555555555555';
const made = { namespace: 'payments', uid, creationTimestamp: createdAt };

export function monitorObject(
  spec: object = {},
  metadata: object = {},
  status?: MonitorObject['status'],
): MonitorObject {
  return {
    metadata: { name: 'backup', generation: 3, ...made, ...metadata },
    spec: { deletionPolicy: 'Archive', ...spec } as MonitorObject['spec'],
    status,
  };
}

export function callbackObject(
  spec: object = {},
  metadata: object = {},
  status?: CallbackObject['status'],
): CallbackObject {
  return {
    metadata: { name: 'oncall', generation: 1, ...made, ...metadata },
    spec: { deletionPolicy: 'Delete', url: 'https://example.com/a', ...spec } as CallbackObject['spec'],
    status,
  };
}

export function desired(
  spec: object = {},
  metadata: object = {},
  alias?: string,
  rules: readonly GivenRule[] = [],
  namespace?: KubeObject,
): DesiredMonitor {
  const facts = {
    ...{ id: 'mon_1', projectId: 'p1', alias, rules, namespace },
    dependencies: { ids: undefined, faults: [], isWaiting: false },
    ...{ isRetryDue: false, nowMs: NOW },
  };
  return desiredMonitor(monitorObject(spec, metadata), facts);
}

export function liveStatus(fields: Partial<MonitorStatus> = {}): MonitorStatus {
  return {
    health: 'up',
    cadence: { source: 'configured', intervalSeconds: 300 },
    openIncidents: [],
    ...fields,
  };
}

export function incident(fields: Partial<OpenIncident> = {}): OpenIncident {
  const openedAt = '2026-03-01T00:00:00Z';
  return {
    incidentId: 'inc_1',
    kind: 'missed_deadline',
    state: 'open',
    severity: 'critical',
    openedAt,
    ...fields,
  };
}

export function record(fields: Partial<Monitor> = {}): Monitor {
  return {
    ...{
      monitorId: 'mon_1',
      monitorKey: 'mon_1',
      projectId: 'p1',
      name: 'backup',
      labels: {},
      graceSeconds: 300,
    },
    ...{ jurisdiction: 'unrestricted', callback: { kind: 'organization_default' }, awaitFirstBeat: true },
    ...{
      recoveryBeats: 1,
      missedBeatsToOpen: 1,
      measurements: {},
      lifecycle: 'active',
      configurationVersion: 7,
    },
    ...{ createdAt, updatedAt: createdAt, status: liveStatus(), publishUrl: 'https://x/ping/1' },
    ...fields,
  };
}

export function endpoint(fields: Partial<CallbackEndpoint> = {}): CallbackEndpoint {
  return {
    ...{ id: 'cb_1', projectId: 'p1', alias: 'oncall', kind: 'webhook', url: 'https://example.com/a' },
    ...{ lifecycle: 'active', isOrganizationDefault: false, generation: 1, createdAt, updatedAt: createdAt },
    ...fields,
  };
}

/** The plan of a new spec that owns nothing yet, on a monitor that has these fields; `facts` says what is otherwise. */
export function plan(
  spec: object,
  has: Partial<Monitor> = {},
  facts: Partial<MonitorPlanFacts> = {},
): MonitorPlan {
  const given = { record: record(has), owned: [], isTakenOver: false, isChanged: true };
  return planMonitor(desired(spec), { ...given, ...facts });
}

// The audit line: who changed what. One line in the log for each change, after its commit, under one name, and nothing
// secret in it (docs/operations.md). A process that dies between the two writes none. Whoever wants fewer lines of a
// running service does not mean these: every level but `silent` has them.
import type { Log } from './log.ts';

export interface AuditedChange {
  action:
    | `credential.${'create' | 'rotate' | 'revoke'}`
    | `endpoint.${'create' | 'update' | 'rotate_secret' | 'remove' | 'disable'}`
    | `default_endpoint.${'set' | 'clear'}`
    | `binding.${'set' | 'rotate_secret' | 'remove'}`
    | `project.${'create' | 'rename'}`
    | `organization.change_${'state' | 'plan'}`
    | 'relay.connect';
  object:
    | {
        kind: 'credential' | 'endpoint' | 'notifier' | 'organization' | 'project';
        id: string;
        projectId?: string;
      }
    | BoundMonitor;
  /** Of a state or a plan that no call changes: what it was and is, and which event or time has changed it. */
  change?: { from: string; to: string; cause: string };
}

/** A monitor, whose binding has or had that endpoint where it is an inline one. */
interface BoundMonitor {
  kind: 'monitor';
  id: string;
  projectId: string;
  jurisdiction: string;
  endpointId?: string;
}

/** The endpoint of an inline binding is found by its monitor alone. */
export function boundMonitor(
  { monitorId, projectId, jurisdiction }: { monitorId: string; projectId: string; jurisdiction: string },
  endpointId: string | undefined,
): BoundMonitor {
  return { kind: 'monitor', id: monitorId, projectId, jurisdiction, endpointId };
}

export interface AuditLine extends AuditedChange {
  actor: { kind: string; id: string; display: string };
  /** Absent where no call made the change. */
  requestId?: string;
}

/** A log of ours, or that of a request. */
interface AuditedLog {
  level: string;
  child(fields: object, options: { level: string }): Pick<Log, 'info'>;
}

export function writeAudit(log: AuditedLog, { requestId, actor, action, object, change }: AuditLine): void {
  if (log.level === 'silent') return;
  log.child({}, { level: 'info' }).info({ audit: { actor, action, object, change }, requestId }, 'Audit.');
}

/** The state or the plan of an organization, which no call changes. `cause`: the event, or what is over. */
export function auditStanding(
  log: AuditedLog,
  actor: AuditLine['actor'],
  change: { organizationId: string; what: 'state' | 'plan'; from: string; to: string; cause: string },
): void {
  const { organizationId, what, from, to, cause } = change;
  const object = { kind: 'organization', id: organizationId } as const;
  writeAudit(log, { actor, action: `organization.change_${what}`, object, change: { from, to, cause } });
}

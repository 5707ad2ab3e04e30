// The audit line: who changed what. One line in the log for each change, after its commit, under one name, and nothing
// secret in it (docs/operations.md). A process that dies between the two writes none.
import type { Log } from './log.ts';

export interface AuditedChange {
  action:
    | `credential.${'create' | 'rotate' | 'revoke'}`
    | `endpoint.${'create' | 'update' | 'rotate_secret' | 'remove' | 'disable'}`
    | `default_endpoint.${'set' | 'clear'}`
    | `project.${'create' | 'rename'}`;
  object: { kind: 'credential' | 'endpoint' | 'organization' | 'project'; id: string; projectId?: string };
}

export interface AuditLine extends AuditedChange {
  actor: { kind: string; id: string; display: string };
  /** Absent where no call made the change. */
  requestId?: string;
}

export function writeAudit(log: Pick<Log, 'info'>, { requestId, actor, action, object }: AuditLine): void {
  log.info({ audit: { actor, action, object }, requestId }, 'Audit.');
}

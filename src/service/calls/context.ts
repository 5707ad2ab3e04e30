// What every use case is given: the databases and settings of this process, and who calls.
import type { DestinationDeps } from '../../delivery/webhook/destination.ts';
import type { Actor } from '../../domain/incident.ts';
import type { Databases } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';

export interface ServiceContext {
  databases: Databases;
  secrets: SecretBox;
  /** Where callbacks may lead: checked at create, at update and at every send. */
  destinations: DestinationDeps;
  /** Base of publish addresses, without a slash at the end. */
  publicUrl: string;
  /** Floor of interval and grace: 60, lower in development alone. */
  minimumIntervalSeconds: number;
}

/** Who calls, in which project. Made by the api from the principal; services never see a credential. */
export interface Caller {
  actor: Actor;
  organizationId: string;
  projectId: string;
  /** May read what only a manager sees (publish addresses). */
  mayManage: boolean;
  requestId: string;
}

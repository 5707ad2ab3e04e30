// What every use case gets: the databases and settings of this process, and the caller.
import type { Relay } from '../../delivery/relay/relay.ts';
import type { DestinationDeps } from '../../delivery/webhook/destination.ts';
import type { Actor } from '../../domain/incident.ts';
import type { FindPlan } from '../../domain/plan.ts';
import type { Databases } from '../../store/postgres/databases.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';

export interface ServiceContext {
  databases: Databases;
  secrets: SecretBox;
  /** Where callbacks may go: checked at create, at update and at every send. */
  destinations: DestinationDeps;
  /** Undefined: the installation has no messaging relay. */
  relay?: Relay;
  /** Base of publish addresses, without a trailing slash. */
  publicUrl: string;
  /** Floor of interval and grace: 60, lower only in development. */
  minimumIntervalSeconds: number;
  /** The catalogue of the installation. */
  findPlan: FindPlan;
}

/** Who calls, in which project. The api makes it from the principal; use cases see no credential. */
export interface Caller {
  actor: Actor;
  /** Of a session: who has issued it. Two issuers may give one subject to two people. */
  issuer?: string;
  organizationId: string;
  projectId: string;
  /** May see publish addresses. */
  mayManage: boolean;
  /** Sees what the operator alone has stored of an object. */
  isOperator: boolean;
  requestId: string;
}

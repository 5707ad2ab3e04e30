// Monitors that an operator beats, on a database with a clock of its own: what the operator sees of causes, and the alerts that go
// out. It leads all along, and says what it sees before each sign of life.
import type { MonitorConfiguration } from '../../src/domain/monitor.ts';
import type { NamedCause } from '../../src/domain/operator-cause.ts';
import { setOperatorCauses } from '../../src/service/monitors/operator-causes.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { signOperator } from '../../src/store/upkeep/operator-signs.ts';
import type { History } from '../api/explain-history.ts';
import { seedEndpoint } from '../support/seed.ts';
import { type DependencyFixture, openDependencyFixture } from './dependency-fixture.ts';

/** Of `History`. */
const OPERATOR = 'operator';
const SIGN_MS = 10_000;

export interface Alert {
  monitorId: string;
  event: string;
  endpointId: string;
  summary: string;
  cause?: NamedCause & { monitors: number };
}

export interface CauseFixture extends DependencyFixture {
  /** An operator beats it, and it has beaten once. */
  makeBeaten(configuration?: Partial<MonitorConfiguration>): Promise<History>;
  /** Sends its alerts to an endpoint of its own project. Returns the id of the endpoint. */
  bindTo(history: History, endpointId?: string): Promise<string>;
  /** All that the operator sees from now on. */
  see(causes: readonly (NamedCause & { at: readonly History[] })[]): Promise<void>;
  /** What was sent about these, in the order in which it was written. */
  alertsOf(histories: readonly History[]): Promise<Alert[]>;
}

export const node = (object: string, at: readonly History[]) => ({
  cause: 'node_not_ready' as const,
  object,
  at,
});

export async function openCauseFixture(): Promise<CauseFixture> {
  const fixture = await openDependencyFixture();
  const { clock, project } = fixture;
  const operator = { organizationId: project.organizationId, operatorId: OPERATOR };
  const where = ({ name }: History) => [name.projectId, name.monitorId];
  return {
    ...fixture,
    async makeBeaten(configuration = {}) {
      const history = await fixture.make(configuration);
      await history.beBeaten();
      await history.beat('success');
      return history;
    },
    async bindTo(history, known) {
      const endpointId = known ?? (await seedEndpoint(fixture, 'http://127.0.0.1:9/team')).endpointId;
      await clock.pool.query(
        `update monitors set binding_kind = 'named', binding_alias = $3 where project_id = $1 and monitor_id = $2`,
        [...where(history), endpointId],
      );
      return endpointId;
    },
    async pass(ms) {
      const endMs = clock.nowMs + ms;
      while (clock.nowMs < endMs) {
        await fixture.pass(Math.min(SIGN_MS, endMs - clock.nowMs));
        await signOperator(clock.pool, operator);
      }
    },
    async see(causes) {
      const named = causes.flatMap(({ cause, object, at }) =>
        at.map(({ name }) => ({ ...name, cause, object })),
      );
      await inTransaction(clock.pool, (tx) => setOperatorCauses(tx, operator, named));
    },
    async alertsOf(histories) {
      const { rows } = await clock.pool.query<{
        monitor_id: string;
        event: string;
        endpoint_id: string;
        body: string;
      }>(
        `select monitor_id, event, endpoint_id, body from deliveries
         where project_id = $1 and monitor_id = any ($2) order by created_at, delivery_id`,
        [project.projectId, histories.map(({ name }) => name.monitorId)],
      );
      return rows.map(({ monitor_id, event, endpoint_id, body }) => {
        const { data } = JSON.parse(body);
        const alert = { monitorId: monitor_id, event, endpointId: endpoint_id };
        return { ...alert, summary: data.incident.summary, ...(data.cause ? { cause: data.cause } : {}) };
      });
    },
  };
}

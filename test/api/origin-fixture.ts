// What tests of origins share: objects of a cluster, and the calls of the operator about their monitors.
import { randomUUID } from 'node:crypto';
import type { ApiClient } from '../support/api-client.ts';
import type { ApiFixture } from '../support/api-fixture.ts';

export interface TestOrigin {
  kind: 'Monitor' | 'CronJob';
  namespace: string;
  name: string;
  uid: string;
}

/** A new object. */
export const newOrigin = (): TestOrigin => ({
  kind: 'Monitor',
  namespace: 'payments',
  name: `job-${randomUUID()}`,
  uid: randomUUID(),
});
/** The object under the same name, after it was deleted and made again. */
export const madeAgain = (origin: TestOrigin): TestOrigin => ({ ...origin, uid: randomUUID() });
/** As the API shows it to everybody but the operator. */
export const shown = ({ uid: _, ...origin }: TestOrigin) => origin;

export function originCalls(api: ApiFixture) {
  const monitorOf = (monitorId: string) =>
    api.operator.expectSuccess('getMonitor', { params: { monitorId } });
  return {
    create: async (body: Record<string, unknown> = {}, client: ApiClient = api.operator) => {
      const made = { name: 'Job', intervalSeconds: 3600, ...body };
      return (await client.expectSuccess('createMonitor', { body: made })).body;
    },
    read: async (monitorId: string) => (await monitorOf(monitorId)).body,
    setOrigin: (monitorId: string, origin: object | null) =>
      api.operator.expectSuccess('setMonitorOrigin', { params: { monitorId }, body: { origin } }),
    report: async (body: { orphaned?: string[]; seen?: string[] }) =>
      (await api.operator.expectSuccess('reportMonitorOrigins', { body })).body,
    changeLifecycle: async (monitorId: string, action: string) => {
      const { etag: ifMatch } = await monitorOf(monitorId);
      const request = { params: { monitorId }, body: { action }, ifMatch };
      return (await api.operator.expectSuccess('changeMonitorLifecycle', request)).body;
    },
    deleteMonitor: async (monitorId: string) => {
      const { etag: ifMatch } = await monitorOf(monitorId);
      await api.operator.expectSuccess('deleteMonitor', { params: { monitorId }, ifMatch });
    },
    /** As if the archived monitor could not be restored any more, and no sweeper had deleted it yet. */
    letRestoreWindowPass: (monitorId: string) =>
      api.pool.query(
        `update monitors set restorable_until = now() - interval '1 second' where monitor_id = $1`,
        [monitorId],
      ),
    /** As if the clock of the monitor had started so much earlier. */
    letPass: (monitorId: string, ms: number) =>
      api.pool.query(
        `update monitor_live l set anchor_ms = anchor_ms - $2, deadline_ms = deadline_ms - $2, wake_ms = wake_ms - $2
         from monitors m
         where m.project_id = l.project_id and m.monitor_key = l.monitor_key and m.monitor_id = $1`,
        [monitorId, ms],
      ),
  };
}

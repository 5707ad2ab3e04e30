// Drafts that tests make over HTTP, on monitors whose beats carry numbers.
import type { ApiFixture } from '../support/api-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

/** A monitor that takes as many beats in a minute as a test sends, and the calls on its drafts. */
export async function makeDrafted(api: ApiFixture, body: object = {}) {
  const { params, patch, measure } = await makeAddressed(api, { callback: { kind: 'disabled' }, ...body });
  const { monitorId } = params;
  const ofMonitor = `monitor_key = (select monitor_key from monitors where monitor_id = '${monitorId}')`;
  return {
    params,
    ofMonitor,
    beat: async (measurements: Record<string, number>, suffix = '') => {
      const answer = await measure(measurements, suffix);
      if (!answer.ok) throw new Error(`The beat was refused: ${answer.status} ${await answer.text()}`);
    },
    /** Beats as the beat path leaves them, without their limit of a minute. */
    insertBeats: async (count: number) => {
      await api.pool.query(
        `with live as (
           update monitor_live set last_sequence = last_sequence + $1 where ${ofMonitor}
           returning project_id, monitor_key, last_sequence - $1 as before)
         insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
         select project_id, monitor_key, before + n, date_trunc('milliseconds', clock_timestamp()), 'success', jsonb_build_object('rows', before + n)
         from live, generate_series(1, $1) n`,
        [count],
      );
    },
    patch,
    create: async (definition: object = { minimum: 10 }, measurementKey = 'rows') => {
      const proposal = { measurementKey, definition };
      return (await api.manage.expectSuccess('createDraft', { params, body: { proposal } })).body;
    },
    read: async (draftId: string) =>
      (await api.read.expectSuccess('getDraft', { params: { ...params, draftId } })).body,
    apply: (draftId: string, change: object = {}) =>
      api.manage.call('applyDraft', {
        params,
        body: {
          draftId,
          confirm: true,
          expectedDraftVersion: 1,
          expectedConfigurationVersion: 1,
          ...change,
        },
      }),
    cancel: (draftId: string, change: object = {}) =>
      api.manage.call('cancelDraft', { params, body: { draftId, ...change } }),
    update: (draftId: string, definition: object, change: object = {}) =>
      api.manage.call('updateDraft', {
        params,
        body: {
          draftId,
          expectedDraftVersion: 1,
          proposal: { measurementKey: 'rows', definition },
          ...change,
        },
      }),
    /** As if the last update of its drafts was so many ms ago. */
    age: async (ms: number) => {
      await api.pool.query(
        `update drafts set updated_at = clock_timestamp() - $1 * interval '1 ms' where ${ofMonitor}`,
        [ms],
      );
    },
  };
}

export type DraftedMonitor = Awaited<ReturnType<typeof makeDrafted>>;

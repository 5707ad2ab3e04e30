// A monitor whose explanations a test reads over HTTP, and whose past it makes longer.
import { expect } from 'vitest';
import type { ApiFixture } from '../support/api-fixture.ts';
import { makeAddressed } from './monitor-fixture.ts';

export const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
export const at = (ms: number) => new Date(ms).toISOString();

/** Without a callback, unless `body` has one. */
export async function makeExplained(api: ApiFixture, body: object = {}) {
  const { params, address, act, patch, measure } = await makeAddressed(api, {
    callback: { kind: 'disabled' },
    ...body,
  });
  return {
    params,
    act,
    patch,
    measure,
    beat: async (suffix = '') => {
      expect((await fetch(`${address}${suffix}`, { method: 'POST' })).status).toBe(200);
    },
    /** Of the item in the status feed. */
    because: async () => {
      const { items } = (await api.read.expectSuccess('getStatusFeed', { query: { limit: 200 } })).body;
      return items.find(({ monitorId }) => monitorId === params.monitorId)?.because ?? '';
    },
    explain: async (query: { at?: string } = {}) =>
      (await api.read.expectSuccess('explainMonitor', { params, query })).body,
    status: async () => (await api.read.expectSuccess('getMonitor', { params })).body.status,
    /** Everything of the monitor happened so much earlier. */
    age: async (ms: number) => {
      await api.pool.query(
        `with m as (select monitor_key from monitors where monitor_id = $1),
           a as (update monitors set created_at = created_at - v.past, updated_at = updated_at - v.past from (select $2 * interval '1 ms' as past) v
             where monitor_id = $1),
           o as (update observations set received_at = received_at - $2 * interval '1 ms'
             where monitor_key in (table m)),
           c as (update monitor_changes set occurred_at = occurred_at - $2 * interval '1 ms'
             where monitor_key in (table m))
         update monitor_live set anchor_ms = anchor_ms - $2::bigint, deadline_ms = deadline_ms - $2::bigint,
           wake_ms = wake_ms - $2::bigint, first_beat_ms = first_beat_ms - $2::bigint,
           last_beat_ms = last_beat_ms - $2::bigint, last_success_ms = last_success_ms - $2::bigint
         where monitor_key in (table m)`,
        [params.monitorId, ms],
      );
    },
  };
}

const TIME = String.raw`(\d{4}-\d{2}-\d{2} )?\d{2}:\d{2}:\d{2} UTC`;

/** Matches a sentence whose times are TIME. */
export const sentence = (text: string) =>
  expect.stringMatching(new RegExp(`^${text.replaceAll('TIME', TIME)}$`));

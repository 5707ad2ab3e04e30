// The history of a monitor: its observations and its change records, newest first, and series of its numbers.
import { z } from 'zod';
import { keptObservations } from '../../domain/retention.ts';
import { optionalMs } from '../../domain/timestamp.ts';
import { findMonitor, findMonitorRef } from '../../service/monitors/monitor-access.ts';
import { readSeries } from '../../service/monitors/series.ts';
import { listObservations } from '../../store/beats/observations-read.ts';
import { listChanges } from '../../store/monitors/monitor-changes.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentBucket, presentChange, presentObservation } from '../present/present-monitor.ts';
import { monitorNameOf } from './monitors.ts';

const OBSERVATIONS = 'observations';
/** The last millisecond that a Date can hold: a later one is no time in the database either. */
const LAST_MS = 8_640_000_000_000_000;
const observationPlace = z.tuple([z.int().min(1), z.int().min(0).max(LAST_MS)]);

const CHANGES = 'changes';
const changePlace = z.tuple([z.int().min(1).max(2_147_483_647)]);

export const monitorHistoryHandlers: Handlers<'listObservations' | 'readSeries' | 'listMonitorChanges'> = {
  listObservations: async (call) => {
    const { since, until, limit, cursor } = call.input.query;
    const place = decodeCursor(OBSERVATIONS, observationPlace, cursor);
    const monitor = await findMonitor(call.db, monitorNameOf(call));
    const { nowMs, planId, live } = monitor;
    const { fromMs, fromSequence } = keptObservations(call.context.findPlan(planId), {
      nowMs,
      lastSequence: live.lastSequence,
    });
    const range = { sinceMs: Math.max(fromMs, optionalMs(since) ?? fromMs), untilMs: optionalMs(until) };
    const found = await listObservations(
      call.db,
      monitor,
      { ...range, fromSequence },
      {
        limit: limit + 1,
        after: place && { sequence: place[0], receivedMs: place[1] },
      },
    );
    const { rows, nextCursor } = cutPage(found, limit, (last) =>
      encodeCursor(OBSERVATIONS, [last.sequence, last.receivedMs]),
    );
    return { body: { items: rows.map(presentObservation), nextCursor } };
  },

  readSeries: async (call) => {
    const { since, until, measurement, bucketSeconds: wanted } = call.input.query;
    const span = { fromMs: Date.parse(since), toMs: Date.parse(until) };
    const request = { ...span, measurement, bucketSeconds: wanted };
    const { bucketSeconds, buckets } = await readSeries(
      call.db,
      monitorNameOf(call),
      request,
      call.context.findPlan,
    );
    return { body: { measurement, bucketSeconds, items: buckets.map(presentBucket) } };
  },

  listMonitorChanges: async (call) => {
    const { limit, cursor } = call.input.query;
    const before = decodeCursor(CHANGES, changePlace, cursor)?.[0];
    const ref = await findMonitorRef(call.db, monitorNameOf(call));
    const found = await listChanges(call.db, ref, { limit: limit + 1, before });
    const { rows, nextCursor } = cutPage(found, limit, (last) =>
      encodeCursor(CHANGES, [last.configurationVersion]),
    );
    return { body: { items: rows.map(presentChange), nextCursor } };
  },
};

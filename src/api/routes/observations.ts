// Observations of a monitor, newest first.
import { z } from 'zod';
import { optionalMs } from '../../service/calls/time.ts';
import { readObservations } from '../../service/monitors/changes.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentObservation } from '../present/present-monitor.ts';
import { monitorNameOf } from './monitors.ts';

const LIST = 'observations';
/** The last millisecond that a Date can hold: more would be no time in the database either. */
const LAST_MS = 8_640_000_000_000_000;
const placeSchema = z.tuple([z.int().min(1), z.int().min(0).max(LAST_MS)]);

export const observationHandlers: Handlers<'listObservations'> = {
  listObservations: async (call) => {
    const { since, until, limit, cursor } = call.input.query;
    const place = decodeCursor(LIST, placeSchema, cursor);
    const range = { sinceMs: optionalMs(since), untilMs: optionalMs(until) };
    const found = await readObservations(call.context, monitorNameOf(call), range, {
      limit: limit + 1,
      after: place && { sequence: place[0], receivedMs: place[1] },
    });
    const { rows, nextCursor } = cutPage(found, limit, (last) =>
      encodeCursor(LIST, [last.sequence, last.receivedMs]),
    );
    return { status: 200, body: { items: rows.map(presentObservation), nextCursor } };
  },
};

// Reads of a monitor's history: its change records and its observations.

import {
  listObservations,
  type ObservationPosition,
  type ObservationRange,
  type ObservationRecord,
} from '../../store/beats/observations-read.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import { type ChangeRecord, listChanges } from '../../store/monitors/monitor-changes.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { ServiceContext } from '../calls/context.ts';
import { findMonitorRef } from './find-monitor.ts';

/** Newest first, before the version of the page before. Throws `not_found` and `conflict`. */
export async function readChanges(
  context: ServiceContext,
  name: MonitorName,
  page: { limit: number; before?: number },
): Promise<ChangeRecord[]> {
  const ref: MonitorRef = await findMonitorRef(context.pool, name);
  return await listChanges(context.pool, ref, page);
}

/** Newest first, below the place of the page before. Throws `not_found` and `conflict`. */
export async function readObservations(
  context: ServiceContext,
  name: MonitorName,
  range: ObservationRange,
  page: { limit: number; after?: ObservationPosition },
): Promise<ObservationRecord[]> {
  const ref: MonitorRef = await findMonitorRef(context.pool, name);
  return await listObservations(context.pool, ref, range, page);
}

// Change records of a monitor, newest first.
import { z } from 'zod';
import type { MonitorChange } from '../../contract/resources/change.ts';
import { toTime } from '../../service/calls/time.ts';
import { readChanges } from '../../service/monitors/changes.ts';
import type { ChangeRecord } from '../../store/monitors/monitor-changes.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentWindow } from '../present/present-monitor.ts';
import { monitorNameOf } from './monitors.ts';

const LIST = 'changes';
const placeSchema = z.tuple([z.int().min(1).max(2_147_483_647)]);

export const changeHandlers: Handlers<'listMonitorChanges'> = {
  listMonitorChanges: async (call) => {
    const { limit, cursor } = call.input.query;
    const before = decodeCursor(LIST, placeSchema, cursor)?.[0];
    const found = await readChanges(call.context, monitorNameOf(call), { limit: limit + 1, before });
    const { rows, nextCursor } = cutPage(found, limit, (last) =>
      encodeCursor(LIST, [last.configurationVersion]),
    );
    return { status: 200, body: { items: rows.map(presentChange), nextCursor } };
  },
};

function presentChange(record: ChangeRecord): MonitorChange {
  const { change, configurationVersion, actor, occurredMs, sourceRequestId } = record;
  const common = { configurationVersion, actor, occurredAt: toTime(occurredMs), sourceRequestId };
  if (change.kind === 'configuration') return { kind: 'configuration', ...common };
  return {
    kind: 'lifecycle',
    ...common,
    action: change.action,
    lifecycleFrom: change.from,
    lifecycleTo: change.to,
    maintenance: change.maintenance && presentWindow(change.maintenance),
  };
}

// Which objects of the cluster the monitors of a project stand for. For the operator alone.
import { withMonitors } from '../../service/calls/homes.ts';
import { workInEach } from '../../service/calls/merged-pages.ts';
import { reportOrigins, setMonitorOrigin } from '../../service/monitors/monitor-origin.ts';
import { takeOriginElsewhere } from '../../service/monitors/origin-elsewhere.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import type { Handlers } from '../operation.ts';
import { answerMonitor, monitorNameOf } from './monitors.ts';

export const monitorOriginHandlers: Handlers<'setMonitorOrigin' | 'reportMonitorOrigins'> = {
  setMonitorOrigin: async (call) => {
    const change = { name: monitorNameOf(call), origin: call.input.body.origin ?? undefined };
    await takeOriginElsewhere(call, change);
    return await call.write(
      (tx) => setMonitorOrigin(tx, call.context, call.caller, change),
      (monitor) => answerMonitor(monitor, call),
    );
  },

  reportMonitorOrigins: async ({ input: { body }, caller, homes }) => {
    const changed = await workInEach(withMonitors(homes), (db) =>
      inTransaction(db, (tx) => reportOrigins(tx, caller.projectId, body)),
    );
    const sumOf = (key: 'orphaned' | 'seen') => changed.reduce((sum, one) => sum + one[key], 0);
    return { body: { orphaned: sumOf('orphaned'), seen: sumOf('seen') } };
  },
};

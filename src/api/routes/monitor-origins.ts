// Which objects of the cluster the monitors of a project stand for. For the operator alone.
import { reportOrigins, setMonitorOrigin } from '../../service/monitors/monitor-origin.ts';
import type { Handlers } from '../operation.ts';
import { answerMonitor, monitorNameOf } from './monitors.ts';

export const monitorOriginHandlers: Handlers<'setMonitorOrigin' | 'reportMonitorOrigins'> = {
  setMonitorOrigin: async (call) => {
    const change = { name: monitorNameOf(call), origin: call.input.body.origin ?? undefined };
    return await call.write(
      (tx) => setMonitorOrigin(tx, call.context, call.caller, change),
      (monitor) => answerMonitor(monitor, call),
    );
  },

  reportMonitorOrigins: async ({ input: { body }, caller, write }) =>
    await write(
      (tx) => reportOrigins(tx, caller.projectId, body),
      (changed) => ({ body: changed }),
    ),
};

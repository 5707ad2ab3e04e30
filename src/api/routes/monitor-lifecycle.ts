// Lifecycle actions of a monitor, and the rotation of its publish address.
import type { OperationInput } from '../../contract/operations/operations.ts';
import { optionalTime } from '../../domain/timestamp.ts';
import { withSlots } from '../../service/calls/reserve-slots.ts';
import { changeLifecycle } from '../../service/monitors/monitor-lifecycle.ts';
import { rotatePublishAddress } from '../../service/monitors/publish-address.ts';
import type { Handlers } from '../operation.ts';
import { publishUrlOf } from '../present/present-monitor.ts';
import { answerMonitor, versionedNameOf } from './monitors.ts';

export const monitorLifecycleHandlers: Handlers<'changeMonitorLifecycle' | 'rotatePublishUrl'> = {
  changeMonitorLifecycle: async (call) => {
    const { action, maintenance } = call.input.body;
    const { context, caller } = call;
    const change = { name: versionedNameOf(call), action, maintenance: windowOf(maintenance) };
    const slots = { monitors: action === 'restore' ? 1 : 0, endpoints: 0, paths: { monitors: 'action' } };
    return await withSlots(call, slots, (use) =>
      call.write(
        (tx, _nowMs, atTheEnd) => {
          atTheEnd(use);
          return changeLifecycle(tx, context, caller, change);
        },
        (monitor) => answerMonitor(monitor, call),
      ),
    );
  },

  rotatePublishUrl: async (call) => {
    const { overlapSeconds } = call.input.body;
    const rotation = { name: versionedNameOf(call), overlapSeconds };
    return await call.write(
      (tx) => rotatePublishAddress(tx, call.context, call.caller, rotation),
      ({ monitor, previousEndsMs }) => {
        const previousUrlEndsAt = optionalTime(previousEndsMs);
        const publishUrl = publishUrlOf(monitor, call.context);
        return {
          version: monitor.configurationVersion,
          body: { publishUrl, replayed: false, previousUrlEndsAt },
          replayBody: { replayed: true, previousUrlEndsAt },
        };
      },
    );
  },
};

function windowOf(maintenance: OperationInput<'changeMonitorLifecycle'>['body']['maintenance']) {
  if (!maintenance) return undefined;
  const { startsAt, endsAt, reason } = maintenance;
  return { startsMs: Date.parse(startsAt), endsMs: Date.parse(endsAt), reason };
}

// Callback bindings of monitors.
import { type BindingView, readBinding, setBinding } from '../../service/callbacks/bindings.ts';
import { ahead } from '../../service/calls/ahead.ts';
import { withSlots } from '../../service/calls/reserve-slots.ts';
import { checkBinding } from '../../service/monitors/monitors.ts';
import type { Handlers } from '../operation.ts';
import { presentSigningSecret, presentTarget, type Viewer } from '../present/present-callback.ts';
import { presentBinding } from '../present/present-monitor.ts';
import { auditedBinding, monitorNameOf, versionedNameOf } from './monitors.ts';

export const bindingHandlers: Handlers<'getMonitorBinding' | 'setMonitorBinding'> = {
  getMonitorBinding: async (call) => {
    const view = await readBinding(call.db, monitorNameOf(call));
    return { version: view.monitor.configurationVersion, body: presentView(view, call) };
  },

  setMonitorBinding: async (call) => {
    const { context, caller } = call;
    const { binding, rotateSigningSecret = false } = call.input.body;
    const requireChecked = await ahead(() => checkBinding(context, binding, 'binding.url'));
    const change = { name: versionedNameOf(call), binding, rotateSigningSecret };
    const slots = async () => {
      const { monitor } = await readBinding(call.db, monitorNameOf(call));
      const isNew = binding.kind === 'inline' && monitor.binding.inlineEndpointId === undefined;
      return { monitors: 0, endpoints: isNew ? 1 : 0, paths: { endpoints: 'binding' } };
    };
    return await withSlots(call, slots, (use) =>
      call.write(
        (tx, _nowMs, atTheEnd) => {
          requireChecked();
          atTheEnd(use);
          return setBinding(tx, context, caller, { ...change, atTheEnd });
        },
        (view) => {
          const body = presentView(view, call);
          const signingSecret = view.secret && presentSigningSecret(view.secret);
          return {
            version: view.monitor.configurationVersion,
            body: { ...body, replayed: false, signingSecret },
            replayBody: { ...body, replayed: true },
            audit: view.done.map((action) => auditedBinding(action, view.monitor, view.endpointId)),
          };
        },
      ),
    );
  },
};

function presentView({ monitor, target, unavailableReason }: BindingView, viewer: Viewer) {
  return {
    binding: presentBinding(monitor, viewer),
    target: target && presentTarget(target, monitor, viewer),
    unavailableReason,
  };
}

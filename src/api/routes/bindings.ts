// Callback bindings of monitors.
import { type BindingView, readBinding, setBinding } from '../../service/callbacks/bindings.ts';
import { checkBinding } from '../../service/monitors/monitors.ts';
import type { Handlers } from '../operation.ts';
import { monitorEtag, presentBinding } from '../present/present-monitor.ts';
import { monitorNameOf, versionedNameOf } from './monitors.ts';

export const bindingHandlers: Handlers<'getMonitorBinding' | 'setMonitorBinding'> = {
  getMonitorBinding: async (call) => {
    const view = await readBinding(call.context, monitorNameOf(call));
    return { status: 200, headers: monitorEtag(view.monitor), body: presentView(view) };
  },

  setMonitorBinding: async (call) => {
    const { binding, rotateSigningSecret = false } = call.input.body;
    await checkBinding(call.context, binding, 'binding.url');
    const change = { name: versionedNameOf(call), binding, rotateSigningSecret };
    return await call.write(
      async (tx) => await setBinding(tx, call.context, call.caller, change),
      (view) => {
        const body = presentView(view);
        return {
          status: 200,
          headers: monitorEtag(view.monitor),
          body: { ...body, replayed: false, signingSecret: view.signingSecret },
          replayBody: { ...body, replayed: true },
        };
      },
    );
  },
};

function presentView({ monitor, target, unavailableReason }: BindingView) {
  return { binding: presentBinding(monitor), target, unavailableReason };
}

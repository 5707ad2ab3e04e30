// Why a monitor is in its state.
import { optionalMs } from '../../domain/timestamp.ts';
import { explainMonitor } from '../../service/monitors/explain.ts';
import type { Handlers } from '../operation.ts';
import { presentExplanation } from '../present/present-explanation.ts';
import { monitorNameOf } from './monitors.ts';

export const explainHandlers: Handlers<'explainMonitor'> = {
  explainMonitor: async (call) => {
    const atMs = optionalMs(call.input.query.at);
    return {
      body: presentExplanation(await explainMonitor(call.db, call.context, monitorNameOf(call), atMs)),
    };
  },
};

// What a beat would do.
import { testBeat } from '../../service/monitors/test-beat.ts';
import type { Handlers } from '../operation.ts';
import { presentBeatTest } from '../present/present-beat-test.ts';
import { monitorNameOf } from './monitors.ts';

export const testBeatHandlers: Handlers<'testBeat'> = {
  testBeat: async (call) => ({
    body: presentBeatTest(await testBeat(call.db, call.context, monitorNameOf(call), call.input.body)),
  }),
};

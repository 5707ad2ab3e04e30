// `kubectl beat pause` and `resume`: set `spec.lifecycle` of the Monitor, and the operator does the rest. A call of the API
// would be put back, because what the YAML sets is enforced.
import type { Command, Result } from '../command.ts';
import { Refusal } from '../refusal.ts';

export const PAUSE = lifecycleCommand('pause', 'paused', {
  summary: 'stops deadlines and alerts',
  details: 'Sets spec.lifecycle of the Monitor to paused. Beats are recorded all the same.',
});

export const RESUME = lifecycleCommand('resume', 'active', {
  summary: 'starts the clock again, with a full interval plus grace',
  details: 'Sets spec.lifecycle of the Monitor to active.',
});

function lifecycleCommand(
  name: 'pause' | 'resume',
  lifecycle: 'paused' | 'active',
  words: Pick<Command, 'summary' | 'details'>,
): Command {
  return {
    name,
    operands: ['<monitor>'],
    ...words,
    options: [],
    async run({ cluster, operands: [monitorName = ''] }) {
      const monitor = await cluster.readMonitor(monitorName);
      const before = monitor.spec.lifecycle;
      if (before === 'archived') {
        throw new Refusal(
          `The Monitor ${monitorName} is archived by its YAML: set spec.lifecycle to ${lifecycle} there if it is to come back.`,
        );
      }
      const isChanged = before !== lifecycle;
      if (isChanged) await cluster.patchMonitor(monitor, { lifecycle });
      return describeLifecycle({ namespace: cluster.namespace, name: monitorName, lifecycle, isChanged });
    },
  };
}

export interface LifecycleChange {
  namespace: string;
  name: string;
  lifecycle: 'paused' | 'active';
  isChanged: boolean;
}

export function describeLifecycle({ isChanged, ...change }: LifecycleChange): Result {
  const word = change.lifecycle === 'paused' ? 'paused' : 'resumed';
  const text = `monitor.beatkeeper.dev/${change.name} ${isChanged ? word : `unchanged: spec.lifecycle is ${change.lifecycle}`}`;
  return { json: { ...change, changed: isChanged }, text };
}

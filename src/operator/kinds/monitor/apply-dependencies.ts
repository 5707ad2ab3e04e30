// The last call of a Monitor's pass: what it depends on. The API may refuse that, and all else is done.
import { classify, isProblem } from '../../../client/api-problem.ts';
import type { ObjectMemory } from '../../known/object-cache.ts';
import { problemText } from '../../resources/problem-text.ts';
import type { ExternalMonitor } from './external-monitor.ts';
import type { MonitorPlan } from './monitor-plan.ts';

/** Returns what the API has refused, for the memory of the object. Throws ApiProblem for what may pass. */
export async function applyDependencies(
  external: ExternalMonitor,
  dependsOn: MonitorPlan['dependsOn'],
  retryMs: number,
): Promise<ObjectMemory['refusedDependencies']> {
  if (dependsOn === undefined) return undefined;
  try {
    await external.run({ call: 'patch', patch: { dependsOn } });
    return undefined;
  } catch (error) {
    if (!isProblem(error) || classify(error) !== 'permanent') throw error;
    return { message: problemText(error), untilMs: performance.now() + retryMs };
  }
}

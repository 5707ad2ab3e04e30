// What a monitor may depend on (docs/contract/incidents.md, "Dependencies"), asked under the lock of the project's dependencies.
import { isDeepStrictEqual } from 'node:util';
import { LONGEST_CHAIN } from '../../domain/dependency.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';
import { invalidField, type ProblemError } from '../../domain/problem.ts';
import { findDependencyFacts, lockDependencies } from '../../store/monitors/dependencies.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

export interface StatedDependencies {
  projectId: string;
  monitorId: string;
  jurisdiction: Jurisdiction;
  dependsOn: readonly string[] | undefined;
}

/**
 * Throws `validation_failed` for a monitor that is not there, a circle, or a chain that is too long. `prefix`: of the path of the
 * field. What the monitor has is not asked again: one that it depends on may have been deleted.
 */
export async function requireDependencies(
  tx: Queryable,
  stated: StatedDependencies,
  { before = [], prefix = '' }: { before?: readonly string[] | undefined; prefix?: string } = {},
): Promise<void> {
  const { dependsOn = [] } = stated;
  if (dependsOn.length === 0 || isDeepStrictEqual(dependsOn, before)) return;
  await lockDependencies(tx, stated.projectId);
  const { missing, isCircular, longestChain } = await findDependencyFacts(tx, { ...stated, dependsOn });
  const path = `${prefix}dependsOn`;
  const unknown = dependsOn.findIndex(
    (id) => missing.includes(id) && !before.includes(id) && id !== stated.monitorId,
  );
  if (unknown >= 0) throw notThere(`${path}.${unknown}`, dependsOn[unknown] ?? '', stated.jurisdiction);
  if (isCircular || dependsOn.includes(stated.monitorId)) {
    throw invalidField(path, 'The monitor would depend on itself, directly or through others.', 'circular');
  }
  if (longestChain <= LONGEST_CHAIN) return;
  const message = `With this, a chain of more than ${LONGEST_CHAIN} monitors depend on each other: leave one out.`;
  throw invalidField(path, message, 'chain_too_long');
}

function notThere(path: string, id: string, jurisdiction: Jurisdiction): ProblemError {
  const message = `The project has no monitor ${id} in the jurisdiction ${jurisdiction}: create it first, or leave it out.`;
  return invalidField(path, message, 'not_found');
}

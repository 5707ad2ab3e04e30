// What an operator sees of the causes of missed beats (docs/contract/incidents.md, "Causes that the operator sees"). The api lets
// the operator alone in here.
import { randomUUID } from 'node:crypto';
import type { Queryable } from '../../store/postgres/pool.ts';
import {
  findCausedMonitors,
  lockOperatorCauses,
  type NamedMonitor,
  replaceOperatorCauses,
} from '../../store/upkeep/operator-causes.ts';
import type { OperatorRef } from '../../store/upkeep/operator-signs.ts';

/** All that it sees now. Monitors that the operator does not beat are passed over. */
export async function setOperatorCauses(
  tx: Queryable,
  operator: OperatorRef,
  named: readonly NamedMonitor[],
): Promise<void> {
  await lockOperatorCauses(tx, operator);
  const monitors = await findCausedMonitors(tx, operator, named);
  await replaceOperatorCauses(tx, operator, monitors, randomIds());
}

function* randomIds(): Generator<string, never> {
  for (;;) yield randomUUID();
}

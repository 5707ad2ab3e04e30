// The outages that an explanation has: of the service, and of the operator that beats the monitor.
import type { State } from '../../domain/explain/situation.ts';
import type { Outage } from '../../domain/monitor.ts';
import type { OperatorSigns } from '../../domain/operator-sign.ts';
import { mergeOutages } from '../../domain/silence.ts';

export type KnownOutages = Pick<State, 'outages' | 'operator'>;

/** Of a monitor that an operator beats. */
export function withOperator(serviceOutages: readonly Outage[], signs: OperatorSigns): KnownOutages {
  const outages = mergeOutages([...serviceOutages, ...signs.outages]);
  return { outages, operator: { ...signs, serviceOutages } };
}

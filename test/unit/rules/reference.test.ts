// The reference of the property tests gives the numbers that were worked out by hand: it is right where the evaluator is, and
// not only the same.
import { expect, it } from 'vitest';
import { BEATS, BY_COUNT, BY_TIME, CONSECUTIVE, readCells } from './cells.ts';
import { type PlainIncident, Reference } from './reference.ts';

const MINUTE = 60_000;

function signOf(incident: PlainIncident | undefined): string {
  if (incident?.state === 'recovering') return 'r';
  if (incident?.state !== 'open') return '-';
  return incident.severity === 'critical' ? 'C' : 'i';
}

const judged = readCells().filter(({ compared }) => compared.length > 0);

it.each(judged)('the reference has the numbers of the cell $title', ({ rule, kind, compared, open }) => {
  for (const [column, rulePolicy] of [CONSECUTIVE, BY_COUNT, BY_TIME].entries()) {
    const reference = new Reference();
    reference.change({ rows: { ...rule, rulePolicy } }, 0);
    let signs = '';
    for (const [index, measurements] of BEATS.entries()) {
      const observation = { sequence: index + 1, atMs: (index + 1) * MINUTE, measurements };
      const violations = reference.beat(observation, false);
      signs += signOf(reference.incidents.at(-1));
      const sign = compared[index] ?? '';
      if (sign === 'R') {
        expect(violations).toBe('refused');
      } else if (sign === '.' || sign === '-') {
        expect(violations).toEqual([]);
      } else {
        const value = sign === 'MAX' ? Number.MAX_VALUE : expect.closeTo(Number(sign), 6);
        expect(violations).toEqual([expect.objectContaining({ measurement: 'rows', rule: kind, value })]);
      }
    }
    expect(signs).toBe(open[column]);
  }
});

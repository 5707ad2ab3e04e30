// Evaluations of rules a second on one core, without a database: eight rules for a monitor, of which a beat in ten violates
// one and the next conforms again. As work to compare it with, the beat's measurements are read from JSON.
import type { Incident } from '../src/domain/incident.ts';
import { hasEnded } from '../src/domain/incident.ts';
import { compileRules } from '../src/domain/rules/compile.ts';
import { judgeBeat } from '../src/domain/rules/judge.ts';
import type { RuleStates } from '../src/domain/rules/state.ts';
import type { Environment } from './environment.ts';
import { printRatios } from './table.ts';

const GOAL = 1_000_000;
const MINUTE = 60_000;
/** Between two looks at the clock. */
const BEATS = 1_000;

const RULES = compileRules({
  rows: { minimum: 1, maximum: 100, maximumAbsoluteDelta: 60, maximumPercentageDelta: 1_000 },
  errors: { zeroExpectation: 'zero', ratio: { denominator: 'rows', maximum: 0.5 } },
  requests: { metricType: 'counter', minimum: 1 },
  seconds: { metricType: 'duration', transform: 'log1p', maximum: 10 },
});
const EVALUATIONS = [...RULES.measurements.values()].reduce((sum, { checks }) => sum + checks.length, 0);

export async function measureRules(
  _: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  evaluate(seconds / 2);
  const rates: number[] = [];
  const parses: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    rates.push(evaluate(seconds) * EVALUATIONS);
    parses.push(parse(seconds / 2));
  }
  printRatios(`Evaluations of rules, ${EVALUATIONS} for each beat, on one core`, [
    { name: `evaluations a second / ${GOAL}`, values: rates.map((rate) => rate / GOAL), goal: '>= 1' },
    {
      name: 'time to judge a beat / to parse its JSON',
      values: rates.map((rate, pair) => ((parses[pair] ?? Number.NaN) * EVALUATIONS) / rate),
    },
  ]);
}

const measurementsOf = (sequence: number) => ({
  rows: 40 + (sequence % 30),
  errors: sequence % 10 === 0 ? 1 : 0,
  requests: sequence * 3,
  seconds: 20 + (sequence % 7),
});

/** Beats judged a second. */
function evaluate(seconds: number): number {
  let states: RuleStates = {};
  let incidents: Incident[] = [];
  let sequence = 0;
  return perSecond(seconds, () => {
    sequence += 1;
    const observation = { sequence, atMs: sequence * MINUTE, measurements: measurementsOf(sequence) };
    const judged = judgeBeat(RULES, states, incidents, observation, { quiet: false });
    states = judged.states;
    if (judged.transitions.length === 0) return;
    incidents = judged.transitions.map(({ incident }) => incident).filter((incident) => !hasEnded(incident));
  });
}

/** Beats parsed a second. */
function parse(seconds: number): number {
  const bodies = Array.from({ length: 64 }, (_, index) =>
    JSON.stringify({ measurements: measurementsOf(index) }),
  );
  let sequence = 0;
  return perSecond(seconds, () => {
    sequence += 1;
    JSON.parse(bodies[sequence % bodies.length] ?? '');
  });
}

/** By processor time: what else the machine does costs nothing. */
function perSecond(seconds: number, work: () => void): number {
  const start = process.cpuUsage();
  let done = 0;
  let spent = 0;
  while (spent < seconds * 1_000_000) {
    for (let beat = 0; beat < BEATS; beat += 1) work();
    done += BEATS;
    const { user, system } = process.cpuUsage(start);
    spent = user + system;
  }
  return done / (spent / 1_000_000);
}

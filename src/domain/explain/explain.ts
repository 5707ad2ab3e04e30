// Why a monitor is in its state, and what comes next. Each word comes from what is stored. Pure.
import { healthOf } from '../health.ts';
import { becauseOf } from './because.ts';
import { explainDeadline, explainMissed } from './explain-deadline.ts';
import { explainRules } from './explain-rules.ts';
import { explainSilence } from './explain-silence.ts';
import type { Explanation, Situation } from './situation.ts';

export function explain(situation: Situation): Explanation {
  const { timing, live, incidents, atMs } = situation;
  const deadline = explainDeadline(situation);
  const rules = situation.rules ? explainRules(situation.rules) : [];
  return {
    health: healthOf(timing, live, incidents, atMs),
    because: becauseOf(situation, { running: deadline, missed: explainMissed(situation) }, atMs),
    deadline,
    rules,
    silence: explainSilence(situation, rules),
  };
}

// What one rule makes of successes that a monitor has had, from no state: what came before the first one is nothing to a
// rule. Nothing is read or written here.
import type { Incident } from '../../domain/incident.ts';
import type { MeasurementRule } from '../../domain/monitor.ts';
import { ProblemError } from '../../domain/problem.ts';
import { compileRules } from '../../domain/rules/compile.ts';
import { findRuleFaults } from '../../domain/rules/faults.ts';
import { startReplay } from '../../domain/rules/replay.ts';
import type { RuleObservation } from '../../domain/rules/state.ts';

/** What a rule makes of the observations. */
export interface ReplayedRule {
  /** In the order in which they opened, each as it is at the end. */
  incidents: Incident[];
  /** Successes that violate a rule. */
  flaggedCount: number;
  /** Successes that the definition refuses for their form: they are not judged. */
  refusedCount: number;
}

/** Of each rule: what an answer shows. */
const MAX_INCIDENTS = 1_000;

/** Throws `conflict` where the rule opens too many incidents. */
export class RuleReplay {
  readonly #rules;
  readonly #replay;
  #refusedCount = 0;

  constructor(key: string, rule: MeasurementRule | undefined) {
    this.#rules = compileRules(rule ? { [key]: rule } : {});
    this.#replay = startReplay(this.#rules);
  }

  take(successes: Iterable<RuleObservation>): void {
    for (const success of successes) {
      if (findRuleFaults(this.#rules, success.measurements).length > 0) {
        this.#refusedCount += 1;
        this.#replay.refuse(success);
      } else this.#replay.take(success);
    }
    requireFew(this.#replay.end().incidents);
  }

  /** Time passes until `untilMs`. */
  end(untilMs: number): ReplayedRule {
    const { incidents, flagged } = this.#replay.end(untilMs);
    requireFew(incidents);
    return { incidents, flaggedCount: flagged, refusedCount: this.#refusedCount };
  }
}

function requireFew(incidents: readonly Incident[]): void {
  if (incidents.length <= MAX_INCIDENTS) return;
  throw new ProblemError('conflict', {
    detail: `One of the rules would have opened more than ${MAX_INCIDENTS} incidents: replay a shorter span, or propose wider bounds.`,
  });
}

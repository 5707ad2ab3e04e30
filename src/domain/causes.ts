// Which of the monitors that some depend on is the cause of their trouble. Pure; what is known of the monitors is read before.
import type { Causes } from './held-alerts.ts';

/** A monitor, and what it depends on. */
export interface KnownDependency {
  monitorId: string;
  dependsOn: readonly string[];
  down?: { incidentId: string; openedMs: number };
  last?: { incidentId: string; endedMs: number };
  isUndecided: boolean;
}

/** What is known of a monitor and of all that it depends on. */
interface Answer {
  down?: { monitorId: string; incidentId: string; openedMs: number; steps: number };
  last?: Causes['last'];
  isUndecided: boolean;
}

const NOTHING: Answer = { isUndecided: false };

/** Answers for each monitor once, however many depend on it. */
export class CauseSearch {
  readonly #known: ReadonlyMap<string, KnownDependency>;
  readonly #answers = new Map<string, Answer>();

  /** By monitor id; of one project and jurisdiction. */
  constructor(known: ReadonlyMap<string, KnownDependency>) {
    this.#known = known;
  }

  causesOf(dependsOn: readonly string[]): Omit<Causes, 'ended'> {
    const { down, last, isUndecided } = this.#among(dependsOn);
    return {
      down: down && { monitorId: down.monitorId, incidentId: down.incidentId },
      ...{ last, isUndecided },
    };
  }

  #among(ids: readonly string[]): Answer {
    return ids.map((id) => this.#of(id)).reduce(both, NOTHING);
  }

  #of(id: string): Answer {
    const answered = this.#answers.get(id);
    if (answered) return answered;
    // Until it is answered: a circle, which is refused when it is made, would never end.
    this.#answers.set(id, NOTHING);
    const monitor = this.#known.get(id);
    const answer = monitor ? both(ownOf(monitor), further(this.#among(monitor.dependsOn))) : NOTHING;
    this.#answers.set(id, answer);
    return answer;
  }
}

function ownOf({ monitorId, down, last, isUndecided }: KnownDependency): Answer {
  return {
    down: down && { monitorId, ...down, steps: 0 },
    last: last && { monitorId, ...last },
    isUndecided,
  };
}

const further = ({ down, ...answer }: Answer): Answer => ({
  ...answer,
  down: down && { ...down, steps: down.steps + 1 },
});

/** The nearest that is down, of those the one that has been for longest; and the one that ended last. */
function both(one: Answer, other: Answer): Answer {
  const isNearer =
    other.down === undefined ||
    (one.down !== undefined &&
      (one.down.steps - other.down.steps || one.down.openedMs - other.down.openedMs) <= 0);
  const isLater =
    other.last === undefined || (one.last !== undefined && one.last.endedMs >= other.last.endedMs);
  return {
    down: isNearer ? one.down : other.down,
    last: isLater ? one.last : other.last,
    isUndecided: one.isUndecided || other.isUndecided,
  };
}

// How much the rules of one batch may take: looks at values and rules, and the incidents that they change. The other beats of
// the batch wait for it.

/** Some ten milliseconds, for the beats of one organization. A beat may have 64 measurements with six rules each. */
const MOST_LOOKS = 20_000;
/** For those of all: other organizations have their beats judged in the batches that one of them fills. */
const MOST_LOOKS_OF_ALL = 5 * MOST_LOOKS;
/** An incident that is read, opened, changed or ended takes as long as so many looks. */
const LOOKS_OF_AN_INCIDENT = 50;

export class JudgingBudget {
  #taken = 0;
  readonly #takenBy = new Map<string, number>();

  /**
   * Takes what a beat needs. False: too much is taken, and the beat waits for the next batch. The first beat of all, and the
   * first one of an organization while there is room for it, get what they need.
   */
  take(organizationId: string, cost: { looks: number; incidents?: number }): boolean {
    const looks = looksOf(cost);
    const own = this.#takenBy.get(organizationId) ?? 0;
    const isTooMuch = own > 0 && own + looks > MOST_LOOKS;
    const isTooMuchOfAll = this.#taken > 0 && this.#taken + looks > MOST_LOOKS_OF_ALL;
    if (isTooMuch || isTooMuchOfAll) return false;
    this.#add(organizationId, looks);
    return true;
  }

  /** What a beat has needed besides. */
  addIncidents(organizationId: string, incidents: number): void {
    this.#add(organizationId, looksOf({ looks: 0, incidents }));
  }

  #add(organizationId: string, looks: number): void {
    this.#taken += looks;
    this.#takenBy.set(organizationId, (this.#takenBy.get(organizationId) ?? 0) + looks);
  }
}

function looksOf({ looks, incidents = 0 }: { looks: number; incidents?: number }): number {
  return looks + incidents * LOOKS_OF_AN_INCIDENT;
}

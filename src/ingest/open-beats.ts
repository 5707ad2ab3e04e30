// The beats that this process has in its hands, and those that it could not take: a refusal of ours must never count as
// silence (docs/contract/beats.md). Bounded memory, no database: excuse-writer.ts writes the excuses. Times are those of
// performance.now().

/** A request for a publish address, from its arrival on. */
export interface OpenBeat {
  readonly address: string;
  readonly arrivedAt: number;
  /** Its body is not read yet: the sender may take its time. */
  isReading: boolean;
}

/** Refused beats of one address that no live row shows yet. */
export interface Excuse {
  readonly address: string;
  firstAt: number;
  newestAt: number;
  beats: number;
  /** Since when its live row could not be locked. */
  busySince?: number;
}

/** A span of refusals whose addresses could not be kept. */
export interface LostSpan {
  fromAt: number;
  toAt: number;
}

const DEFAULT_CAPACITY = 200_000;
/** A body that takes longer gets its excuse in advance: a slow sender must not hold up the detection of others. */
const SLOW_BODY_MS = 1_000;

export class OpenBeats {
  readonly #capacity: number;
  /** In the order of arrival. */
  readonly #open = new Set<OpenBeat>();
  #waiting = new Map<string, Excuse>();
  /** What the writer works on. */
  #taken = new Map<string, Excuse>();
  #lost: LostSpan | undefined;

  /** `capacity`: the most addresses of refused beats. */
  constructor(capacity = DEFAULT_CAPACITY) {
    this.#capacity = capacity;
  }

  /** Adds a beat that has arrived, unless it is of a kind that moves no deadline. */
  begin(address: string, movesDeadline = true): OpenBeat {
    const beat: OpenBeat = { address, arrivedAt: performance.now(), isReading: true };
    if (movesDeadline) this.add(beat);
    return beat;
  }

  /** A beat that may be of several databases is open for each of them. */
  add(beat: OpenBeat): void {
    this.#open.add(beat);
  }

  /** The beat is committed, has its deliberate answer, or is of a kind that moves no deadline. */
  end(beat: OpenBeat): void {
    this.#open.delete(beat);
  }

  /** The service could not take the beat. A second call, and one after `end`, does nothing. */
  refuse(beat: OpenBeat): void {
    if (!this.#open.delete(beat)) return;
    const { address, arrivedAt: at } = beat;
    this.#add({ address, firstAt: at, newestAt: at, beats: 1 });
  }

  /** Refuses in advance what is not read one second after its arrival. It can still be accepted: the later clock holds. */
  refuseSlowBodies(): void {
    const beforeAt = performance.now() - SLOW_BODY_MS;
    for (const beat of this.#open) {
      if (beat.arrivedAt > beforeAt) return;
      if (beat.isReading) this.refuse(beat);
    }
  }

  /** Somebody was refused between these moments, and nobody knows who. */
  lose(fromAt: number, toAt = fromAt): void {
    if (this.#lost === undefined) this.#lost = { fromAt, toAt };
    else {
      this.#lost = {
        fromAt: Math.min(this.#lost.fromAt, fromAt),
        toAt: Math.max(this.#lost.toAt, toAt),
      };
    }
  }

  /** Beats that are neither committed nor answered. */
  get open(): number {
    return this.#open.size;
  }

  /** Addresses with refused beats that no live row shows yet. */
  get excuses(): number {
    return this.#waiting.size + this.#taken.size;
  }

  /**
   * The arrival of the oldest beat that is neither committed nor answered nor excused in the database. Undefined: there
   * is none.
   */
  oldestAt(): number | undefined {
    let oldest = this.#lost?.fromAt ?? Number.POSITIVE_INFINITY;
    for (const beat of this.#open) {
      oldest = Math.min(oldest, beat.arrivedAt);
      break;
    }
    // Not in the order of arrival: a beat may be refused at once or after a long wait.
    for (const excuses of [this.#waiting, this.#taken]) {
      for (const { firstAt } of excuses.values()) oldest = Math.min(oldest, firstAt);
    }
    return oldest === Number.POSITIVE_INFINITY ? undefined : oldest;
  }

  lostSpan(): LostSpan | undefined {
    return this.#lost;
  }

  /** The span, as `lostSpan` returned it, is written as an outage of the service. What was lost since stays. */
  settleLost(span: LostSpan): void {
    if (this.#lost === undefined || this.#lost.fromAt < span.fromAt) return;
    const { toAt } = this.#lost;
    this.#lost = toAt > span.toAt ? { fromAt: span.toAt, toAt } : undefined;
  }

  /** For the writer: everything that waits. It has to discharge or return it before it takes more. */
  take(): Excuse[] {
    this.#taken = this.#waiting;
    this.#waiting = new Map();
    return [...this.#taken.values()];
  }

  /** The live row shows the excuse, or nobody needs it. */
  discharge({ address }: Excuse): void {
    this.#taken.delete(address);
  }

  /** The excuse cannot be written: its span is an outage for all. */
  giveUp(excuse: Excuse): void {
    this.discharge(excuse);
    this.lose(excuse.firstAt, excuse.newestAt);
  }

  /** What is taken and not discharged waits again. */
  giveBack(): void {
    const left = this.#taken;
    this.#taken = new Map();
    for (const excuse of left.values()) this.#add(excuse);
  }

  #add(excuse: Excuse): void {
    const known = this.#waiting.get(excuse.address);
    if (known) {
      known.firstAt = Math.min(known.firstAt, excuse.firstAt);
      known.newestAt = Math.max(known.newestAt, excuse.newestAt);
      known.beats += excuse.beats;
      known.busySince ??= excuse.busySince;
    } else if (this.excuses < this.#capacity) {
      const address = copyOf(excuse.address);
      this.#waiting.set(address, { ...excuse, address });
    } else this.lose(excuse.firstAt, excuse.newestAt);
  }
}

/** A string that does not keep the request's whole URL in memory, as a slice of it does. */
function copyOf(address: string): string {
  return Buffer.from(address, 'latin1').toString('latin1');
}

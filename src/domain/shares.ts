// Places that many share, of which nobody may hold so many that others find none. Pure but for its counts.

/** Who holds fewer may take one of the places that are kept. */
const FEW = 2;

/**
 * How many more places someone may take who holds `held` while `free` are free: one at a time, while he holds fewer than
 * are free. So one alone gets half of the places, two get a third each, and there is room for whoever comes next. Of the
 * free places `kept` are for those who hold fewer than two: there is room for who comes late also where very many share.
 */
export function roomOf(held: number, free: number, kept = 0): number {
  const least = kept > 0 ? Math.min(FEW - held, free) : 0;
  return Math.max(0, least, Math.ceil((free - kept - held) / 2));
}

/** Who holds how many of the places. */
export class Shares {
  readonly #total: number;
  readonly kept: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(total: number, kept = 0) {
    this.#total = total;
    this.kept = kept;
  }

  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return this.#total - this.#taken;
  }

  heldBy(holder: string): number {
    return this.#held.get(holder) ?? 0;
  }

  /** How many more places the holder may take now. */
  roomFor(holder: string): number {
    return roomOf(this.heldBy(holder), this.free, this.kept);
  }

  take(holder: string): void {
    this.#taken += 1;
    this.#held.set(holder, this.heldBy(holder) + 1);
  }

  giveBack(holder: string): void {
    const held = this.heldBy(holder);
    if (held === 0) throw new Error('Nothing was taken.');
    this.#taken -= 1;
    if (held === 1) this.#held.delete(holder);
    else this.#held.set(holder, held - 1);
  }
}

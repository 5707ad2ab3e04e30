// Places that many share, of which nobody may hold so many that others find none. Pure but for its counts.

/**
 * How many more places someone may take who holds `held` while `free` are free: one at a time, while he holds fewer than
 * are free. So one alone gets half of the places, two get a third each, and there is room for whoever comes next.
 */
export function roomOf(held: number, free: number): number {
  return Math.max(0, Math.ceil((free - held) / 2));
}

/** Who holds how many of the places. */
export class Shares {
  readonly #total: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(total: number) {
    this.#total = total;
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
    return roomOf(this.heldBy(holder), this.free);
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

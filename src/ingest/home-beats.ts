// The beat path of an installation with several databases: one directory, batcher and book of open beats for each. The
// database that has the address takes the beat. Until it is known a beat is open for all of them, and no longer than that:
// one that hangs delays neither beats nor deadlines of another.
import type { BeatItem, BeatOutcome } from './apply-items.ts';
import type { Batcher } from './batcher.ts';
import type { DirectoryEntry, MonitorDirectory } from './monitor-directory.ts';
import type { OpenBeat, OpenBeats } from './open-beats.ts';

/** What one database has. Its directory gives entries with its number. */
export interface BeatHome {
  directory: MonitorDirectory;
  batcher: Batcher;
  openBeats: OpenBeats;
}

/** The first of them is number 0. */
export class HomeBeats {
  readonly #homes: readonly BeatHome[];

  constructor(homes: readonly BeatHome[]) {
    this.#homes = homes;
  }

  /** As `MonitorDirectory.peek`. An address never changes its database. */
  peek(address: string, beat: OpenBeat): DirectoryEntry | undefined {
    for (const { directory } of this.#homes) {
      const entry = directory.peek(address);
      if (entry) return this.#belongsTo(entry, beat);
    }
    return undefined;
  }

  /** As `MonitorDirectory.load`, of all databases at the same time. Rejects where one that is away may have the address. */
  async load(address: string, beat: OpenBeat): Promise<DirectoryEntry | undefined> {
    const found = Promise.withResolvers<DirectoryEntry>();
    const looks = this.#homes.map(async ({ directory, openBeats }) => {
      const entry = await directory.load(address);
      if (entry) found.resolve(entry);
      else openBeats.end(beat);
    });
    const entry = await Promise.race([found.promise, Promise.allSettled(looks)]);
    if (!Array.isArray(entry)) return this.#belongsTo(entry, beat);
    const failed = entry.find((look) => look.status === 'rejected');
    if (failed) throw failed.reason;
    return undefined;
  }

  submit(item: BeatItem, waitedMs: number): Promise<BeatOutcome> {
    const home = this.#homes[item.entry.home ?? 0];
    if (!home) throw new Error(`There is no database ${item.entry.home}.`);
    return home.batcher.submit(item, waitedMs);
  }

  begin(address: string, movesDeadline = true): OpenBeat {
    const beat: OpenBeat = { address, arrivedAt: performance.now(), isReading: true };
    if (movesDeadline) for (const { openBeats } of this.#homes) openBeats.add(beat);
    return beat;
  }

  end(beat: OpenBeat): void {
    for (const { openBeats } of this.#homes) openBeats.end(beat);
  }

  refuse(beat: OpenBeat): void {
    for (const { openBeats } of this.#homes) openBeats.refuse(beat);
  }

  #belongsTo(entry: DirectoryEntry, beat: OpenBeat): DirectoryEntry {
    for (const [home, { openBeats }] of this.#homes.entries()) if (home !== entry.home) openBeats.end(beat);
    return entry;
  }
}

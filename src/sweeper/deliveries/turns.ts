// What one run asks for: projects take turns, and in each project its endpoints. So each project gets its share of the
// places, whatever is due in others, and each endpoint its turn.
import { roomOf } from '../../domain/shares.ts';
import type { DueEndpoint, WantedDeliveries } from '../../store/deliveries/delivery-queue.ts';
import { endpointKeyOf } from './due-endpoints.ts';

/** The places that are free now. */
export interface FreePlaces {
  free: number;
  heldBy(projectId: string): number;
  /** Of one endpoint, by its key. */
  placesFor(endpoint: string): number;
}

export interface Chosen {
  wanted: WantedDeliveries[];
  /** There was no room for other endpoints: the next run goes on behind. */
  isCut: boolean;
}

/** A project in one run. */
interface Turn {
  projectId: string;
  endpoints: readonly DueEndpoint[];
  /** Places that it holds, and those that it asks for. */
  held: number;
  /** The first endpoint of the run, and how many have had their turn. */
  first: number;
  passed: number;
}

/** One per dispatcher. */
export class Turns {
  #due: readonly DueEndpoint[] = [];
  /** The due endpoints of each project, in the order of their ids. */
  #projects = new Map<string, DueEndpoint[]>();
  /** The endpoint of each project at which the last run ended for want of room. */
  #last = new Map<string, string>();
  /** The project that was asked last. */
  #lastProject = '';

  /** As many deliveries as there are places for. `due` is in the order of the keys. */
  choose(due: readonly DueEndpoint[], places: FreePlaces): Chosen {
    this.#group(due);
    const wanted: WantedDeliveries[] = [];
    let { free } = places;
    let isCut = false;
    let turns = this.#begin(places);
    while (turns.length > 0) {
      const next: Turn[] = [];
      for (const turn of turns) {
        const room = roomOf(turn.held, free);
        const want = room > 0 ? takeNext(turn, places, room) : undefined;
        if (want) {
          wanted.push(want);
          turn.held += want.places;
          free -= want.places;
          next.push(turn);
          this.#lastProject = turn.projectId;
        } else if (this.#end(turn)) isCut = true;
      }
      turns = next;
    }
    return { wanted, isCut };
  }

  /** The projects that have room, from the one behind the last on. */
  #begin({ free, heldBy }: FreePlaces): Turn[] {
    const turns: Turn[] = [];
    for (const [projectId, endpoints] of this.#projects) {
      const held = heldBy(projectId);
      if (roomOf(held, free) === 0) continue;
      const last = this.#last.get(projectId);
      const first = last === undefined ? 0 : endpoints.findIndex(({ endpointId }) => endpointId > last);
      turns.push({ projectId, endpoints, held, first: Math.max(0, first), passed: 0 });
    }
    const start = turns.findIndex(({ projectId }) => projectId > this.#lastProject);
    return start > 0 ? [...turns.slice(start), ...turns.slice(0, start)] : turns;
  }

  /** True when endpoints of the project are left. */
  #end({ projectId, endpoints, first, passed }: Turn): boolean {
    const isLeft = passed < endpoints.length;
    const last = endpoints[(first + passed - 1) % endpoints.length];
    if (isLeft && last && passed > 0) this.#last.set(projectId, last.endpointId);
    else if (!isLeft) this.#last.delete(projectId);
    return isLeft;
  }

  #group(due: readonly DueEndpoint[]): void {
    if (due === this.#due) return;
    this.#due = due;
    this.#projects = new Map();
    for (const ref of due) {
      const known = this.#projects.get(ref.projectId);
      if (known) known.push(ref);
      else this.#projects.set(ref.projectId, [ref]);
    }
    for (const projectId of this.#last.keys())
      if (!this.#projects.has(projectId)) this.#last.delete(projectId);
  }
}

/** Passes to the next endpoint of the project that has places. */
function takeNext(turn: Turn, { placesFor }: FreePlaces, room: number): WantedDeliveries | undefined {
  const { endpoints, first } = turn;
  while (turn.passed < endpoints.length) {
    const ref = endpoints[(first + turn.passed) % endpoints.length];
    turn.passed += 1;
    const places = ref ? Math.min(placesFor(endpointKeyOf(ref)), room) : 0;
    // The poll has seen nothing before `firstMs`.
    if (ref && places > 0) return { ...ref, places, sinceMs: ref.firstMs };
  }
  return undefined;
}

// What one run asks for: projects take turns, and in each project its queues. So each project gets its share of the
// places, whatever is due in others, and each of its endpoints its turn. The places at an endpoint to which several
// projects send are divided among them.
import { roomOf } from '../../domain/shares.ts';
import type { WantedDeliveries } from '../../store/deliveries/delivery-queue.ts';
import { type DueQueue, queueKeyOf } from '../../store/deliveries/due-queues.ts';
import { endpointKeyOf } from './due-queues.ts';

/** The places that are free now. */
export interface FreePlaces {
  free: number;
  /** Those of the free places that are for projects which hold few. */
  kept: number;
  heldBy(projectId: string): number;
  /** Of one endpoint, by its key. */
  placesFor(endpoint: string): number;
  /** Nothing of the queue is asked for now. */
  isPaused(queue: KeyedQueue): boolean;
}

export interface Chosen {
  wanted: WantedDeliveries[];
  /** There was no room for other queues: the next run goes on behind. */
  isCut: boolean;
}

/** A project in one run. */
interface Turn {
  projectId: string;
  queues: readonly KeyedQueue[];
  /** Places that it holds, and those that it asks for. */
  held: number;
  /** The first queue of the run, and how many have had their turn. */
  first: number;
  passed: number;
}

export interface KeyedQueue {
  ref: DueQueue;
  key: string;
  /** The key of its endpoint. */
  endpoint: string;
}

/** An endpoint at which several projects have queues. */
interface SharedEndpoint {
  /** In the order of the keys. */
  queues: KeyedQueue[];
  /** The queue that was the last to have a place when there were fewer places than queues. */
  last: string;
}

/** One per dispatcher. */
export class Turns {
  #due: readonly DueQueue[] = [];
  /** The due queues of each project, in the order of their keys; the projects in the order of their ids. */
  #projects = new Map<string, KeyedQueue[]>();
  #shared = new Map<string, SharedEndpoint>();
  /** The queue of each project at which the last run ended for want of room. */
  #last = new Map<string, string>();
  /** The project that was asked last. */
  #lastProject = '';

  /** As many deliveries as there are places for. `due` is in the order of the keys. */
  choose(due: readonly DueQueue[], places: FreePlaces): Chosen {
    this.#group(due);
    const wanted: WantedDeliveries[] = [];
    const parts = new EndpointParts(this.#shared, places);
    let { free } = places;
    let isCut = false;
    let turns = this.#begin(places);
    while (turns.length > 0) {
      const next: Turn[] = [];
      for (const turn of turns) {
        const room = roomOf(turn.held, free, places.kept);
        const want = room > 0 ? takeNext(turn, parts, room) : undefined;
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
  #begin({ free, kept, heldBy }: FreePlaces): Turn[] {
    const turns: Turn[] = [];
    for (const [projectId, queues] of this.#projects) {
      const held = heldBy(projectId);
      if (roomOf(held, free, kept) === 0) continue;
      const last = this.#last.get(projectId);
      const first = last === undefined ? 0 : queues.findIndex(({ key }) => key > last);
      turns.push({ projectId, queues, held, first: Math.max(0, first), passed: 0 });
    }
    const start = turns.findIndex(({ projectId }) => projectId > this.#lastProject);
    return start > 0 ? [...turns.slice(start), ...turns.slice(0, start)] : turns;
  }

  /** True when queues of the project are left. */
  #end({ projectId, queues, first, passed }: Turn): boolean {
    const isLeft = passed < queues.length;
    const last = queues[(first + passed - 1) % queues.length];
    if (isLeft && last && passed > 0) this.#last.set(projectId, last.key);
    else if (!isLeft) this.#last.delete(projectId);
    return isLeft;
  }

  #group(due: readonly DueQueue[]): void {
    if (due === this.#due) return;
    this.#due = due;
    const projects = new Map<string, KeyedQueue[]>();
    const endpoints = new Map<string, KeyedQueue[]>();
    for (const ref of due) {
      const queue = { ref, key: queueKeyOf(ref), endpoint: endpointKeyOf(ref.endpoint) };
      append(projects, ref.projectId, queue);
      append(endpoints, queue.endpoint, queue);
    }
    this.#shared = new Map(
      [...endpoints]
        .filter(([, queues]) => queues.length > 1)
        .map(([key, queues]) => [key, { queues, last: this.#shared.get(key)?.last ?? '' }]),
    );
    this.#projects = new Map([...projects].sort(([one], [other]) => (one < other ? -1 : 1)));
    for (const projectId of this.#last.keys())
      if (!this.#projects.has(projectId)) this.#last.delete(projectId);
  }
}

/** The places at endpoints in one run: the queues of an endpoint that do not pause have equal parts. */
class EndpointParts {
  readonly #endpoints: ReadonlyMap<string, SharedEndpoint>;
  readonly #places: FreePlaces;
  readonly #parts = new Map<string, number>();

  constructor(endpoints: ReadonlyMap<string, SharedEndpoint>, places: FreePlaces) {
    this.#endpoints = endpoints;
    this.#places = places;
  }

  of(queue: KeyedQueue): number {
    const { key, endpoint } = queue;
    if (this.#places.isPaused(queue)) return 0;
    const shared = this.#endpoints.get(endpoint);
    if (!shared) return this.#places.placesFor(endpoint);
    if (!this.#parts.has(key)) this.#divide(shared, this.#places.placesFor(endpoint));
    return this.#parts.get(key) ?? 0;
  }

  /** Where there are fewer places than queues, the next run goes on behind the last that has one. */
  #divide(shared: SharedEndpoint, places: number): void {
    const open = shared.queues.filter((queue) => !this.#places.isPaused(queue));
    const first = Math.max(
      0,
      open.findIndex(({ key }) => key > shared.last),
    );
    const inTurn = [...open.slice(first), ...open.slice(0, first)];
    const extra = places % inTurn.length;
    for (const [index, { key }] of inTurn.entries()) {
      this.#parts.set(key, Math.floor(places / inTurn.length) + (index < extra ? 1 : 0));
    }
    shared.last = inTurn[extra - 1]?.key ?? shared.last;
  }
}

/** Passes to the next queue of the project that has places. */
function takeNext(turn: Turn, parts: EndpointParts, room: number): WantedDeliveries | undefined {
  const { queues, first } = turn;
  while (turn.passed < queues.length) {
    const queue = queues[(first + turn.passed) % queues.length];
    turn.passed += 1;
    const places = queue ? Math.min(parts.of(queue), room) : 0;
    if (!queue || places === 0) continue;
    const { firstMs, ...ref } = queue.ref;
    // The poll has seen nothing before `firstMs`.
    return { ...ref, places, sinceMs: firstMs };
  }
  return undefined;
}

function append<Value>(lists: Map<string, Value[]>, key: string, value: Value): void {
  const known = lists.get(key);
  if (known) known.push(value);
  else lists.set(key, [value]);
}

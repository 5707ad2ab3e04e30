// What one run asks for: projects take turns, and in each project its queues. So each project gets its share of the
// places, whatever is due in others, and each of its endpoints its turn. The places at an endpoint to which several
// projects send are divided among them. What is claimed ahead comes after all that may be sent at once.
import { roomOf } from '../../domain/shares.ts';
import type { WantedDeliveries } from '../../store/deliveries/delivery-queue.ts';
import { type DueQueue, queueKeyOf } from '../../store/deliveries/due-queues.ts';
import { endpointKeyOf } from './due-queues.ts';

interface Room {
  free: number;
  /** Those of the free places that are for projects which hold few. */
  kept: number;
  heldBy(projectId: string): number;
}

/** The places that are free now. */
export interface FreePlaces extends Room {
  /** Attempts that may begin at one endpoint, by its key. */
  placesFor(endpoint: string): number;
  /** Beyond those, what is worth a claim ahead at the endpoint, over all of its queues. */
  aheadFor(endpoint: string): number;
  /** What is claimed ahead of one queue now. */
  aheadOf(queue: KeyedQueue): number;
  /** Nothing of the queue is asked for now. */
  isPaused(queue: KeyedQueue): boolean;
}

export interface Chosen {
  wanted: WantedDeliveries[];
  /** There was no room for other queues that may send at once: the next run goes on behind. */
  isCut: boolean;
}

/** Where each kind of places goes on. */
interface Cursor {
  /** The queue of each project at which the last run ended for want of room. */
  queues: Map<string, string>;
  /** The project that was asked last. */
  project: string;
}

type PlacesOf = (queue: KeyedQueue) => number;

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
  /** What the last run claimed ahead of each queue at most. */
  #mostAhead = 0;
  readonly #now: Cursor = { queues: new Map(), project: '' };
  readonly #ahead: Cursor = { queues: new Map(), project: '' };

  get mostAhead(): number {
    return this.#mostAhead;
  }

  /** As many deliveries as there are places for. `due` is in the order of the keys. */
  choose(due: readonly DueQueue[], places: FreePlaces): Chosen {
    this.#group(due);
    const parts = new EndpointParts(this.#shared, places, [...this.#projects.values()].flat());
    this.#mostAhead = parts.most;
    const wanted = new Map<string, WantedDeliveries>();
    const isCut = this.#ask(wanted, this.#now, { ...places, of: (queue) => parts.of(queue) });
    const asked = new Map<string, number>();
    for (const want of wanted.values()) add(asked, want.projectId, want.places);
    this.#ask(wanted, this.#ahead, {
      free: places.free - [...asked.values()].reduce((sum, count) => sum + count, 0),
      kept: places.kept,
      heldBy: (projectId) => places.heldBy(projectId) + (asked.get(projectId) ?? 0),
      of: (queue) => parts.aheadOf(queue),
    });
    return { wanted: [...wanted.values()], isCut };
  }

  /** Adds what there is room for. True when queues are left for which there was none. */
  #ask(wanted: Map<string, WantedDeliveries>, cursor: Cursor, places: Room & { of: PlacesOf }): boolean {
    let { free } = places;
    let isCut = false;
    let turns = this.#begin(cursor, places);
    while (turns.length > 0) {
      const next: Turn[] = [];
      for (const turn of turns) {
        const room = roomOf(turn.held, free, places.kept);
        const found = room > 0 ? takeNext(turn, places.of) : undefined;
        if (found) {
          const count = Math.min(found.places, room);
          want(wanted, found.queue, count);
          turn.held += count;
          free -= count;
          next.push(turn);
          cursor.project = turn.projectId;
        } else if (end(cursor, turn)) isCut = true;
      }
      turns = next;
    }
    return isCut;
  }

  /** The projects that have room, from the one behind the last on. */
  #begin(cursor: Cursor, { free, kept, heldBy }: Room): Turn[] {
    const turns: Turn[] = [];
    for (const [projectId, queues] of this.#projects) {
      const held = heldBy(projectId);
      if (roomOf(held, free, kept) === 0) continue;
      const last = cursor.queues.get(projectId);
      const first = last === undefined ? 0 : queues.findIndex(({ key }) => key > last);
      turns.push({ projectId, queues, held, first: Math.max(0, first), passed: 0 });
    }
    const start = turns.findIndex(({ projectId }) => projectId > cursor.project);
    return start > 0 ? [...turns.slice(start), ...turns.slice(0, start)] : turns;
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
    for (const { queues } of [this.#now, this.#ahead]) {
      for (const projectId of queues.keys()) if (!this.#projects.has(projectId)) queues.delete(projectId);
    }
  }
}

/** What is claimed ahead, over all queues. */
const MAX_AHEAD = 256;

/** The places at endpoints in one run: the queues of an endpoint that do not pause have equal parts. */
class EndpointParts {
  readonly #endpoints: ReadonlyMap<string, SharedEndpoint>;
  readonly #places: FreePlaces;
  /** Of shared endpoints, by queue. */
  readonly #parts = new Map<string, Part>();
  /** What is claimed ahead of each queue at most. */
  readonly most: number;

  constructor(
    endpoints: ReadonlyMap<string, SharedEndpoint>,
    places: FreePlaces,
    due: readonly KeyedQueue[],
  ) {
    this.#endpoints = endpoints;
    this.#places = places;
    // Queues at endpoints that answer slowly, or not, take nothing from the others.
    const quick = due.filter((queue) => places.aheadFor(queue.endpoint) > 0).length;
    this.most = Math.floor(MAX_AHEAD / Math.max(quick, 1));
  }

  /** What may be sent at once. */
  of(queue: KeyedQueue): number {
    if (this.#places.isPaused(queue)) return 0;
    const shared = this.#endpoints.get(queue.endpoint);
    return shared ? this.#partOf(queue, shared).now : this.#places.placesFor(queue.endpoint);
  }

  /** What is worth a claim beyond that. */
  aheadOf(queue: KeyedQueue): number {
    if (this.#places.isPaused(queue)) return 0;
    const shared = this.#endpoints.get(queue.endpoint);
    return shared
      ? this.#partOf(queue, shared).ahead
      : this.#leftOf([queue], this.#places.aheadFor(queue.endpoint));
  }

  /** Half of what is held goes first: few large claims cost less than many small ones. */
  #leftOf(queues: readonly KeyedQueue[], ahead: number): number {
    const most = Math.min(this.most * queues.length, ahead);
    const held = queues.reduce((sum, queue) => sum + this.#places.aheadOf(queue), 0);
    return held > most / 2 ? 0 : most - held;
  }

  #partOf(queue: KeyedQueue, shared: SharedEndpoint): Part {
    if (!this.#parts.has(queue.key)) this.#divide(shared, queue.endpoint);
    return this.#parts.get(queue.key) ?? { now: 0, ahead: 0 };
  }

  /**
   * Each queue has its part of what is claimed ahead, however much is held of the others: what is held takes turns. Where
   * there are fewer places than queues, they go round: the next run goes on behind the last queue that has one.
   */
  #divide(shared: SharedEndpoint, endpoint: string): void {
    const open = shared.queues.filter((queue) => !this.#places.isPaused(queue));
    const first = Math.max(
      0,
      open.findIndex(({ key }) => key > shared.last),
    );
    const inTurn = [...open.slice(first), ...open.slice(0, first)];
    const places = this.#places.placesFor(endpoint);
    const ahead = this.#places.aheadFor(endpoint);
    const isScarce = ahead < inTurn.length;
    const round = places + (isScarce ? this.#leftOf(inTurn, ahead) : 0);
    const extra = round % inTurn.length;
    for (const [index, queue] of inTurn.entries()) {
      const now = Math.floor(round / inTurn.length) + (index < extra ? 1 : 0);
      const part = isScarce ? 0 : this.#leftOf([queue], Math.floor(ahead / inTurn.length));
      this.#parts.set(queue.key, { now, ahead: part });
    }
    shared.last = inTurn[extra - 1]?.key ?? shared.last;
  }
}

interface Part {
  now: number;
  ahead: number;
}

/** Passes to the next queue of the project that has places. */
function takeNext(turn: Turn, placesOf: PlacesOf): { queue: KeyedQueue; places: number } | undefined {
  const { queues, first } = turn;
  while (turn.passed < queues.length) {
    const queue = queues[(first + turn.passed) % queues.length];
    turn.passed += 1;
    const places = queue ? placesOf(queue) : 0;
    if (queue && places > 0) return { queue, places };
  }
  return undefined;
}

function want(wanted: Map<string, WantedDeliveries>, { key, ref }: KeyedQueue, places: number): void {
  const { firstMs, ...queue } = ref;
  const before = wanted.get(key)?.places ?? 0;
  // The poll has seen nothing before `firstMs`.
  wanted.set(key, { ...queue, places: before + places, sinceMs: firstMs });
}

/** True when queues of the project are left. */
function end(cursor: Cursor, { projectId, queues, first, passed }: Turn): boolean {
  const isLeft = passed < queues.length;
  const last = queues[(first + passed - 1) % queues.length];
  if (isLeft && last && passed > 0) cursor.queues.set(projectId, last.key);
  else if (!isLeft) cursor.queues.delete(projectId);
  return isLeft;
}

function add(sums: Map<string, number>, key: string, count: number): void {
  sums.set(key, (sums.get(key) ?? 0) + count);
}

function append<Value>(lists: Map<string, Value[]>, key: string, value: Value): void {
  const known = lists.get(key);
  if (known) known.push(value);
  else lists.set(key, [value]);
}

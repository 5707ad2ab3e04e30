// The calls that run now: bounds their number, shares it by project and then by principal, and ends the calls that are
// held open when the service drains.
import type { OperationSpec } from '../../contract/operations/operation.ts';
import { ProblemError } from '../../domain/problem.ts';
import { roomOf, Shares } from '../../domain/shares.ts';

export interface OpenCallLimits {
  /** Calls that do work. */
  working: number;
  /** Calls that wait for something (`waitSeconds`), or send an answer as fast as its reader reads: they mostly cost memory. */
  held: number;
}

const DEFAULT_LIMITS: OpenCallLimits = { working: 2_000, held: 5_000 };
/** A held call lasts for up to 30 s: who has too many of them need not ask each second. */
const RETRY_SECONDS: OpenCallLimits = { working: 1, held: 5 };

/** Whose call it is. Of strangers there is none: they are refused before. */
export interface CallHolder {
  project: string;
  /** The same in each project: a session may name all of its organization. */
  principal: string;
}

export class OpenCalls {
  readonly #pools: Record<keyof OpenCallLimits, SharedCalls>;
  readonly #calls = new Map<AbortController, { kind: keyof OpenCallLimits; holder: CallHolder }>();
  #draining = false;

  constructor({ working, held } = DEFAULT_LIMITS) {
    this.#pools = { working: new SharedCalls(working), held: new SharedCalls(held) };
  }

  get size(): number {
    return this.#calls.size;
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** Adds a call. Throws `rate_limited` for who has his share, and `temporarily_unavailable` when too many run. */
  begin(spec: OperationSpec, holder: CallHolder): AbortController {
    const waits = spec.query !== undefined && 'waitSeconds' in spec.query.shape;
    const kind = waits || spec.streams ? 'held' : 'working';
    this.#pools[kind].take(holder, RETRY_SECONDS[kind]);
    const call = new AbortController();
    this.#calls.set(call, { kind, holder });
    if (kind === 'held' && this.#draining) call.abort();
    return call;
  }

  end(call: AbortController): void {
    const known = this.#calls.get(call);
    if (!known || !this.#calls.delete(call)) return;
    this.#pools[known.kind].giveBack(known.holder);
  }

  /** Ends the calls that are held open, now and from now on. Calls that do work may finish. */
  drain(): void {
    this.#draining = true;
    for (const [call, { kind }] of this.#calls) if (kind === 'held') call.abort();
  }
}

/**
 * A project holds fewer calls than are free; a principal fewer than are free to its project beside those, and in all
 * projects together fewer than are free beside its own.
 */
class SharedCalls {
  readonly #projects: Shares;
  // Only counts: the places are those of the projects.
  readonly #principals = new Shares(Number.POSITIVE_INFINITY);
  readonly #principalsOfProjects = new Shares(Number.POSITIVE_INFINITY);

  constructor(limit: number) {
    this.#projects = new Shares(limit);
  }

  take(holder: CallHolder, retryAfterSeconds: number): void {
    const { free } = this.#projects;
    if (free === 0) throw busy(retryAfterSeconds);
    const held = this.#projects.heldBy(holder.project);
    if (roomOf(held, free) === 0) throw overShare('project', held, retryAfterSeconds);
    const own = this.#principals.heldBy(holder.principal);
    const ownHere = this.#principalsOfProjects.heldBy(keyOf(holder));
    if (roomOf(ownHere, free - held) === 0 || roomOf(own, free - own) === 0)
      throw overShare('principal', own, retryAfterSeconds);
    this.#projects.take(holder.project);
    this.#principals.take(holder.principal);
    this.#principalsOfProjects.take(keyOf(holder));
  }

  giveBack(holder: CallHolder): void {
    this.#projects.giveBack(holder.project);
    this.#principals.giveBack(holder.principal);
    this.#principalsOfProjects.giveBack(keyOf(holder));
  }
}

const keyOf = ({ project, principal }: CallHolder) => `${project} ${principal}`;

function busy(retryAfterSeconds: number): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail: 'Too many calls run at the same time: wait for Retry-After, then try again.',
    retryAfterSeconds,
  });
}

const WHO = { project: 'The project', principal: 'This credential or session' };

function overShare(who: keyof typeof WHO, held: number, retryAfterSeconds: number): ProblemError {
  return new ProblemError('rate_limited', {
    detail: `${WHO[who]} has ${held} calls open at the same time, its share of what the service can hold now: end some of them, or wait for Retry-After, then try again.`,
    retryAfterSeconds,
  });
}

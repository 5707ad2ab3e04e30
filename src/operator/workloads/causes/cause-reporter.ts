// Tells the API what keeps Jobs from running, as the cluster shows it: all of it when it changes, when this operator begins to
// lead, and once a minute. The sign of life waits for it, but for no API that does not take it.
import { setTimeout as delay } from 'node:timers/promises';
import { ApiProblem, isProblem } from '../../../client/api-problem.ts';
import type { MonitorObject } from '../../kinds/monitor/monitor-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { problemText } from '../../resources/problem-text.ts';
import type { WorkloadView } from '../workload-view.ts';
import { CauseBook } from './cause-book.ts';
import type { CauseWatches } from './cause-watches.ts';

/** All is looked at again, and told again, after this time. */
const REFRESH_MS = 60_000;
/** Between two calls: a node takes its pods along one after the other. */
const PAUSE_MS = 1_000;
const TIMEOUT_MS = 4_000;
const MAX_BACKOFF_MS = 5_000;
/** An older API that is being upgraded. */
const REFUSED_MS = 15_000;
/** Signs wait no longer for calls that fail, but for one attempt: four signs that are missing are a silence. */
const PATIENCE_MS = 4_000;
/** Who begins to lead without having listed all would say that causes are over. A list that hangs is not waited for longer. */
const LISTING_MS = 30_000;

export class CauseReporter {
  readonly #context: OperatorContext;
  readonly #watches: CauseWatches;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #book: CauseBook;
  readonly #abort = new AbortController();
  #ended: Promise<void> | undefined;
  #isWorking: boolean = false;
  /** Counts what was noticed. */
  #noticed = 0;
  /** Up to here the API knows it, or has refused it. */
  #told = 0;
  readonly #woken = new Signal();
  /** A sign of life waits. */
  readonly #hurried = new Signal();
  /** An attempt has ended. */
  readonly #tried = new Signal();
  /** What the API took last. */
  #last: { text: string; isEmpty: boolean } | undefined;
  /** Since when calls fail, ms of the process's clock, and whether the last one reached nobody. */
  #failing: { sinceMs: number; isUnreachable: boolean } | undefined;
  /** What is told is to be told again although it is the same. */
  #isNews: boolean = false;
  #refusal: { code: string; untilMs: number } | undefined;

  /** The cache has the index `workload`. */
  constructor(
    context: OperatorContext,
    seen: { view: WorkloadView; watches: CauseWatches; monitors: ObjectCache<MonitorObject> },
  ) {
    this.#context = context;
    this.#watches = seen.watches;
    this.#monitors = seen.monitors;
    this.#book = new CauseBook(context, seen, () => this.#notice());
  }

  start(): void {
    this.#isWorking = true;
    this.#notice();
    this.#ended ??= this.#run();
  }

  /** What it told last stays at the API: the next leader replaces it. */
  async stop(): Promise<void> {
    this.#abort.abort(new Error('The operator ends.'));
    await this.#ended;
  }

  namespaceChanged(name: string): void {
    this.#book.addNamespace(name);
  }

  /**
   * Resolves when the API knows all that was noticed by now, or does not take it. Where calls have been failing for a while, one
   * attempt is all that is waited for. False: the API cannot be reached, so that a sign would overtake what it waits for.
   */
  async whenTold(): Promise<boolean> {
    const { signal } = this.#abort;
    const upTo = this.#noticed;
    for (let isLast = false; this.#told < upTo && !isLast && !signal.aborted; ) {
      isLast = performance.now() - (this.#failing?.sinceMs ?? performance.now()) >= PATIENCE_MS;
      const tried = this.#tried.next;
      if (isLast) this.#hurried.give();
      await tried;
    }
    return this.#told >= upTo || this.#failing?.isUnreachable !== true;
  }

  #notice(): void {
    if (!this.#isWorking) return;
    this.#noticed += 1;
    this.#woken.give();
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    await this.#whenSettled(signal);
    let refreshAtMs = performance.now() + REFRESH_MS;
    for (let failures = 0; !signal.aborted; ) {
      const [woken, hurried] = [this.#woken.next, this.#hurried.next];
      if (performance.now() >= refreshAtMs) {
        refreshAtMs = performance.now() + REFRESH_MS;
        this.#book.addAll();
        this.#isNews = true;
      }
      if (await this.#tellNow(signal)) {
        failures = 0;
        await pause(PAUSE_MS, signal);
        await pause(Math.min(refreshAtMs - performance.now(), this.#book.nextDueInMs), signal, woken);
      } else {
        failures += 1;
        await pause(Math.min(MAX_BACKOFF_MS, PAUSE_MS * 2 ** (failures - 1)), signal, hurried);
      }
    }
    this.#tried.give();
  }

  /** A standby has, long before it leads. */
  async #whenSettled(signal: AbortSignal): Promise<void> {
    const startedAtMs = performance.now();
    while (!this.#watches.isSettled && !signal.aborted && performance.now() - startedAtMs < LISTING_MS)
      await pause(50, signal);
  }

  /** False: the call is to be tried again. */
  async #tellNow(signal: AbortSignal): Promise<boolean> {
    const upTo = this.#noticed;
    const startedAtMs = performance.now();
    try {
      await this.#book.open();
      await this.#book.update(signal);
      await this.#send(signal);
      this.#failing = undefined;
      this.#told = upTo;
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      const isUnreachable = error instanceof ApiProblem && error.code === 'unreachable';
      this.#failing = { sinceMs: this.#failing?.sinceMs ?? startedAtMs, isUnreachable };
      this.#context.log.debug(
        { err: error },
        'Could not tell the API which causes are seen; it is tried again.',
      );
      return false;
    } finally {
      this.#tried.give();
    }
  }

  async #send(signal: AbortSignal): Promise<void> {
    const { api, operatorName } = this.#context;
    if (this.#refusal !== undefined && performance.now() < this.#refusal.untilMs) return;
    if (this.#book.takeUnknown()) this.#isNews = true;
    const { causes } = this.#book;
    const text = JSON.stringify(causes);
    const isEmpty = causes.length === 0;
    if (text === this.#last?.text && !this.#isNews) return;
    // Without a Monitor nobody asks, unless the API still has what was told before.
    if (isEmpty && this.#last?.isEmpty !== false && !this.#monitors.hasAny('workload')) return;
    const params = { operatorId: await operatorName.id() };
    try {
      await api.call('setOperatorCauses', { params, body: { causes } }, { signal, timeoutMs: TIMEOUT_MS });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#refused(error);
      return;
    }
    this.#refusal = undefined;
    this.#isNews = false;
    this.#last = { text, isEmpty };
  }

  #refused(error: ApiProblem): void {
    const isNews = this.#refusal?.code !== error.code;
    this.#refusal = { code: error.code, untilMs: performance.now() + REFUSED_MS };
    this.#last = undefined;
    if (!isNews) return;
    const why = `The API does not take causes: ${problemText(error)} Each monitor has its own alert until it does.`;
    this.#context.log.info({ err: error }, why);
  }
}

/** An answer about the call itself: an API of an older version does not know it. */
function isRefusal(error: unknown): error is ApiProblem {
  if (!(error instanceof ApiProblem) || error.status < 400 || error.status >= 500) return false;
  return error.status === 400 || isProblem(error, 'gone', 'permanent', 'unauthorized', 'conflict');
}

/** Something that happens again and again. */
class Signal {
  #next = Promise.withResolvers<void>();

  /** Resolves at the next one. */
  get next(): Promise<void> {
    return this.#next.promise;
  }

  give(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers<void>();
  }
}

/** Ends early with `until`. */
async function pause(ms: number, outer: AbortSignal, until?: Promise<void>): Promise<void> {
  const abort = new AbortController();
  const signal = AbortSignal.any([outer, abort.signal]);
  // A timer holds no more than 24 days.
  const wait = delay(Math.max(0, Math.min(ms, REFRESH_MS)), undefined, { signal }).catch(() => undefined);
  await (until === undefined ? wait : Promise.race([until, wait]));
  abort.abort();
}

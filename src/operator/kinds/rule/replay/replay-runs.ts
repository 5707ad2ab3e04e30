// Runs the replays of Rules beside their passes: two Monitors at a time in all, namespaces and Rules in turns. A pass
// follows its run and writes what it has come to; a lost run goes on where the status says.
import type { RestClient } from '../../../../client/rest-client.ts';
import type { RuleReplayStatus } from '../../../../contract/crd/rule-replay.ts';
import { Controller, type ReconcileContext, type ReconcileResult } from '../../../../kube/controller.ts';
import type { KubeLog } from '../../../../kube/kube-log.ts';
import { objectKey } from '../../../../kube/kube-object.ts';
import type { MonitorObject } from '../../monitor/monitor-object.ts';
import type { RuleObject } from '../rule-object.ts';
import { type ReplayProposal, replayMonitor } from './replay-calls.ts';
import {
  doneCount,
  finishProgress,
  isOf,
  type ReplayOutcome,
  startProgress,
  withMatched,
  withOutcome,
} from './replay-progress.ts';
import { placeOf, type TargetState } from './replay-targets.ts';

/** What a run knows of the cluster. */
export interface ReplaySource {
  /** The Monitors that the Rule matches now, in any order. */
  monitorsOf(rule: RuleObject): readonly MonitorObject[];
  /** Undefined where the Monitor is gone. */
  stateOf(monitor: MonitorObject, proposal: ReplayProposal): TargetState | undefined;
  /** There is news of the run of this Rule. Called seldom. */
  changed(ruleKey: string): void;
}

/** A run as a pass sees it. */
export interface FollowedReplay {
  progress: RuleReplayStatus;
  /** Why it does not go on at the moment, a sentence. */
  waitsFor: string | undefined;
}

/** One replay of one Rule. */
interface Run {
  rule: RuleObject;
  proposal: ReplayProposal;
  progress: RuleReplayStatus;
  waitsFor: string | undefined;
  /** The places of Monitors that have been dealt with. */
  done: Set<string>;
  /** Those that were found last and have not been dealt with, the next one at the end. */
  left: MonitorObject[];
  /** When the pass was last called, ms of the process's clock. */
  toldAtMs: number;
}

/** Replays of one run before another Rule has its turn. */
const MONITORS_A_TURN = 5;
/** A status of a run is written at most this often. */
const TELL_EVERY_MS = 2000;
/** A Monitor whose own pass is to come is asked for again after this time. */
const PENDING_MS = 1000;
/** A fault is shown from the third failure in a row on. */
const FAILURES_TO_SHOW = 2;

export class ReplayRuns {
  readonly #api: Pick<RestClient, 'call'>;
  readonly #source: ReplaySource;
  readonly #runs = new Map<string, Run>();
  readonly #controller: Controller;

  constructor({ api, log }: { api: Pick<RestClient, 'call'>; log: KubeLog }, source: ReplaySource) {
    this.#api = api;
    this.#source = source;
    this.#controller = new Controller({
      name: 'rule-replays',
      concurrency: 2,
      reconcile: (ruleKey, context) => this.#takeTurn(ruleKey, context),
      log,
    });
  }

  /**
   * Starts the replay of a Rule, goes on with it, or says how it ended. `stored` is `status.replay`: it counts where this
   * process knows of no run. Undefined while the Rule matches no Monitor.
   */
  follow(
    rule: RuleObject,
    proposal: ReplayProposal,
    stored: RuleReplayStatus | undefined,
  ): FollowedReplay | undefined {
    const ruleKey = objectKey(rule);
    const known = this.#runs.get(ruleKey);
    if (known !== undefined && isSameRun(known, proposal)) return followed(known);
    this.#runs.delete(ruleKey);
    const before = stored !== undefined && isOf(stored, proposal) ? stored : undefined;
    if (before?.finishedAt !== undefined) return { progress: before, waitsFor: undefined };
    const run = this.#begin(rule, proposal, before);
    if (run === undefined) return undefined;
    this.#runs.set(ruleKey, run);
    this.#controller.start();
    this.#controller.enqueue(ruleKey);
    return followed(run);
  }

  /** Ends the run of a Rule, if there is one: it is deleted, or is no replay any more. */
  forget(ruleKey: string): void {
    this.#runs.delete(ruleKey);
  }

  /** Ends also the calls that are under way. */
  async stop(): Promise<unknown> {
    return await this.#controller.stop(0);
  }

  #begin(rule: RuleObject, proposal: ReplayProposal, before: RuleReplayStatus | undefined): Run | undefined {
    const monitors = this.#source.monitorsOf(rule);
    if (before === undefined && monitors.length === 0) return undefined;
    const cursor = before?.cursor ?? '';
    const done = monitors.map(placeOf).filter((place) => place <= cursor);
    const start = { matched: monitors.length, nowMs: Date.now() };
    return {
      rule,
      proposal,
      progress: before ?? startProgress(proposal, start),
      waitsFor: undefined,
      done: new Set(done),
      left: [],
      toldAtMs: Number.NEGATIVE_INFINITY,
    };
  }

  async #takeTurn(ruleKey: string, context: ReconcileContext): Promise<ReconcileResult | undefined> {
    const run = this.#runs.get(ruleKey);
    if (run === undefined || run.progress.finishedAt !== undefined) return undefined;
    for (let count = 0; count < MONITORS_A_TURN; count += 1) {
      const monitor = this.#nextOf(ruleKey, run);
      if (monitor === undefined) return undefined;
      const state = this.#source.stateOf(monitor, run.proposal);
      if (state?.kind === 'pending') {
        const { name } = monitor.metadata;
        this.#tell(ruleKey, run, `Waits until the Monitor ${name} is reconciled.`);
        return { requeueAfterMs: PENDING_MS };
      }
      let outcome: ReplayOutcome | undefined;
      try {
        outcome = state && (await this.#replay(ruleKey, run, state, context));
      } catch (error) {
        // The failures of the queue are those of the first Monitor of a turn.
        if (count === 0) throw error;
        return { requeueAfterMs: 0 };
      }
      // Another run may have taken the place of this one meanwhile.
      if (context.signal.aborted || this.#runs.get(ruleKey) !== run) return undefined;
      run.left.pop();
      if (outcome !== undefined) this.#take(run, monitor, outcome);
      this.#tell(ruleKey, run, undefined);
    }
    return { requeueAfterMs: 0 };
  }

  /** The next Monitor, which stays at the end of `left`. Undefined: the run has ended. */
  #nextOf(ruleKey: string, run: Run): MonitorObject | undefined {
    if (run.left.length === 0) {
      const left = this.#source.monitorsOf(run.rule).map((monitor) => ({ monitor, place: placeOf(monitor) }));
      run.left = left
        .filter(({ place }) => !run.done.has(place))
        .toSorted((a, b) => (a.place < b.place ? 1 : -1))
        .map(({ monitor }) => monitor);
      run.progress = withMatched(run.progress, doneCount(run.progress) + run.left.length);
    }
    const next = run.left.at(-1);
    if (next === undefined) {
      run.progress = finishProgress(run.progress, Date.now());
      run.waitsFor = undefined;
      run.done.clear();
      this.#source.changed(ruleKey);
    }
    return next;
  }

  async #replay(
    ruleKey: string,
    run: Run,
    state: Exclude<TargetState, { kind: 'pending' }>,
    { signal, failures }: ReconcileContext,
  ): Promise<ReplayOutcome> {
    if (state.kind === 'omitted') return state.outcome;
    const { since, until } = run.progress;
    const call = { monitor: state.monitor, window: { since, until }, signal, failures };
    try {
      return await replayMonitor(this.#api, run.proposal, call);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (failures >= FAILURES_TO_SHOW) this.#tell(ruleKey, run, `Goes on when the API answers: ${why}`);
      throw error;
    }
  }

  #take(run: Run, monitor: MonitorObject, outcome: ReplayOutcome): void {
    const place = placeOf(monitor);
    run.done.add(place);
    const { cursor = '' } = run.progress;
    const at = { name: monitor.metadata.name, cursor: place > cursor ? place : cursor };
    run.progress = withOutcome(run.progress, at, outcome);
  }

  /** Has the status written now and then, and at once where what the run waits for is another thing. */
  #tell(ruleKey: string, run: Run, waitsFor: string | undefined): void {
    const nowMs = performance.now();
    if (waitsFor === run.waitsFor && nowMs - run.toldAtMs < TELL_EVERY_MS) return;
    run.waitsFor = waitsFor;
    run.toldAtMs = nowMs;
    this.#source.changed(ruleKey);
  }
}

function isSameRun({ proposal, progress }: Run, wanted: ReplayProposal): boolean {
  return proposal.uid === wanted.uid && isOf(progress, wanted);
}

function followed({ progress, waitsFor }: Run): FollowedReplay {
  return { progress, waitsFor };
}

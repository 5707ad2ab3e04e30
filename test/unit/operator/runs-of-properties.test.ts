// Random lives of Jobs, of which the operator sees any part, dies anywhere, and is away: each Job starts at most once and ends
// exactly once where its end could be seen, and no beat says what did not happen.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PodObject } from '../../../src/operator/workloads/batch-objects.ts';
import type { JobView } from '../../../src/operator/workloads/job-state.ts';
import type { RunBeat } from '../../../src/operator/workloads/run-beats.ts';
import type { ReportedRuns } from '../../../src/operator/workloads/run-facts.ts';
import { runsOf } from '../../../src/operator/workloads/runs-of.ts';
import { at, cronJob, ended, job, NOTHING, running, START_MS, view, waiting } from './job-views.ts';

/** One Job of the model: what it is, whatever anybody sees. */
interface Life {
  uid: string;
  startedS?: number;
  podStartedS?: number;
  failures: number;
  end?: { isSuccess: boolean; atS: number };
  isGone: boolean;
}

type Action =
  | { do: 'create' | 'wait' | 'look' | 'miss' }
  | { do: 'run' | 'retry' | 'complete' | 'fail' | 'delete'; pick: number }
  /** The operator dies after so many beats of a look; the status has what was reported, or is a look behind. */
  | { do: 'die'; beats: number; isBehind: boolean };

const pick = fc.nat(5);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom<Action>({ do: 'create' }, { do: 'wait' }, { do: 'miss' }) },
  { weight: 4, arbitrary: fc.constant<Action>({ do: 'look' }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('run', 'retry', 'complete', 'fail', 'delete'), pick }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('die'), beats: fc.nat(3), isBehind: fc.boolean() }) },
);

/** The cluster, the operator and what the API has recorded. */
class World {
  nowS = 0;
  lives: Life[] = [];
  /** Deleted while an operator was there, and not reported yet. */
  gone: JobView[] = [];
  reported: ReportedRuns = NOTHING;
  stored: ReportedRuns = NOTHING;
  lastSuccessfulTime: string | undefined;
  isAway = false;
  /** By key: the API counts a beat once. */
  readonly recorded = new Map<string, RunBeat['body']>();
  readonly order: string[] = [];
  /** Jobs whose end an operator had before its eyes. */
  readonly seenEnds = new Set<string>();

  act(step: Action): void {
    this.nowS += 5;
    switch (step.do) {
      case 'create':
        this.lives.push({ uid: `job-${this.lives.length}`, failures: 0, isGone: false });
        return;
      case 'wait':
        this.nowS += 120;
        return;
      case 'look':
        this.look();
        return;
      case 'miss':
        // Nobody is there: what is deleted now leaves no trace.
        this.isAway = true;
        this.gone = [];
        this.reported = this.stored;
        return;
      case 'die':
        if (this.isAway) return;
        this.look(step.beats);
        if (!step.isBehind) this.stored = this.reported;
        this.reported = this.stored;
        this.gone = [];
        return;
      default:
        this.#live(step);
    }
  }

  #live(step: Extract<Action, { pick: number }>): void {
    const there = this.lives.filter(({ isGone }) => !isGone);
    const life = there[step.pick % Math.max(1, there.length)];
    if (life === undefined) return;
    if (step.do === 'delete') {
      if (!this.isAway) this.gone.push({ ...this.#viewOf(life), isGone: true });
      life.isGone = true;
    }
    if (life.end !== undefined || step.do === 'delete') return;
    if (step.do === 'run') {
      life.startedS ??= this.nowS;
      life.podStartedS ??= this.nowS + 1;
    }
    if (step.do === 'retry' && life.podStartedS !== undefined) life.failures += 1;
    const isEnd = step.do === 'complete' || step.do === 'fail';
    if (isEnd && life.podStartedS !== undefined) {
      life.end = { isSuccess: step.do === 'complete', atS: this.nowS };
      if (life.end.isSuccess) this.lastSuccessfulTime = at(this.nowS);
    }
  }

  #viewOf(life: Life): JobView {
    const pods: PodObject[] = [];
    for (let failure = 0; failure < life.failures; failure += 1)
      pods.push(ended(1, at(life.podStartedS ?? 0), at((life.podStartedS ?? 0) + 1)));
    if (life.podStartedS !== undefined) pods.push(running(at(life.podStartedS)));
    else pods.push(waiting('ContainerCreating'));
    const facts = {
      uid: life.uid,
      ...(life.startedS === undefined ? {} : { startTime: at(life.startedS) }),
      ...(life.end?.isSuccess === true ? { completed: at(life.end.atS) } : {}),
      ...(life.end?.isSuccess === false
        ? { failed: { at: at(life.end.atS), reason: 'BackoffLimitExceeded' } }
        : {}),
    };
    return view(job(facts), pods);
  }

  /** A pass of the operator that sends so many beats before it dies. */
  look(beats = Number.POSITIVE_INFINITY): void {
    this.isAway = false;
    const jobs = [
      ...this.lives.filter(({ isGone }) => !isGone).map((life) => this.#viewOf(life)),
      ...this.gone,
    ];
    const status =
      this.lastSuccessfulTime === undefined ? {} : { lastSuccessfulTime: this.lastSuccessfulTime };
    const plan = runsOf({
      ...{ ref: 'ns/CronJob/backup', cronJob: cronJob({ status }), jobs, reported: this.reported },
      nowMs: START_MS + this.nowS * 1000,
    });
    for (const { beat, after } of plan.steps.slice(0, beats)) {
      this.#record(beat);
      this.reported = after;
    }
    if (beats !== Number.POSITIVE_INFINITY) return;
    for (const { uid, end, isGone } of this.lives) if (end !== undefined && !isGone) this.seenEnds.add(uid);
    for (const { job: one } of this.gone) {
      const life = this.lives.find(({ uid }) => uid === one.metadata.uid);
      if (life?.end !== undefined) this.seenEnds.add(life.uid);
    }
    this.reported = plan.final;
    this.stored = plan.final;
    this.gone = [];
  }

  #record({ idempotencyKey, body }: RunBeat): void {
    if (this.recorded.has(idempotencyKey)) return;
    this.recorded.set(idempotencyKey, body);
    this.order.push(`${body.status} ${body.runId}`);
  }
}

describe('the Jobs of a CronJob', () => {
  it('start at most once and end exactly once where that was to be seen, in any history with any operator', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (steps) => {
        const world = new World();
        for (const step of steps) world.act(step);
        world.look();
        const { order } = world;
        for (const { uid, end, podStartedS } of world.lives) {
          const of = (kind: string) => order.filter((one) => one === `${kind} ${uid}`).length;
          expect(of('start')).toBeLessThanOrEqual(podStartedS === undefined ? 0 : 1);
          expect(of('success')).toBeLessThanOrEqual(end?.isSuccess === true ? 1 : 0);
          expect(of('fail')).toBeLessThanOrEqual(end?.isSuccess === false ? 1 : 0);
          if (world.seenEnds.has(uid)) {
            expect(of('success') + of('fail')).toBe(1);
            expect(order.indexOf(`start ${uid}`)).toBeGreaterThanOrEqual(0);
          }
          for (const kind of ['success', 'fail', 'cancel'])
            if (of(kind) > 0)
              expect(order.indexOf(`${kind} ${uid}`)).toBeGreaterThan(order.indexOf(`start ${uid}`));
        }
        // What has ended is not open, and what is open is there.
        const open = (world.reported.runs ?? []).filter((run) => run.ended === undefined);
        for (const run of open) {
          const life = world.lives.find(({ uid }) => uid === run.uid);
          expect(life).toMatchObject({ isGone: false });
          expect(life?.end).toBeUndefined();
        }
        // A look at what has not changed says nothing.
        const count = world.recorded.size;
        world.look();
        expect(world.recorded.size).toBe(count);
      }),
      { numRuns: 3000 },
    );
  });

  it('that completed while nobody was there, and are gone, are one success for each time that the CronJob says', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (steps) => {
        const world = new World();
        for (const step of steps) world.act(step);
        world.nowS += 120;
        world.look();
        const floors = [...world.recorded.values()].filter(({ runId }) => runId.startsWith('cron-'));
        const completed = world.lives.flatMap(({ end }) => (end?.isSuccess === true ? [at(end.atS)] : []));
        for (const { observedAt } of floors) expect(completed).toContain(observedAt);
        expect(new Set(floors.map(({ observedAt }) => observedAt)).size).toBe(floors.length);
        const successes = [...world.recorded.values()].filter(({ status }) => status === 'success');
        expect(successes.length).toBeLessThanOrEqual(completed.length);
        const { lastSuccessfulTime: last } = world;
        if (last !== undefined) expect(successes.map(({ observedAt }) => observedAt)).toContain(last);
      }),
      { numRuns: 2000 },
    );
  });
});

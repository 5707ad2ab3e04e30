// What `status.replay` of a Rule says while its Monitors are replayed, one after the other, and after them.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RuleReplayStatus } from '../../../src/contract/crd/rule-replay.ts';
import {
  finishProgress,
  isOf,
  type ReplayNumbers,
  type ReplayOutcome,
  startProgress,
  withMatched,
  withOutcome,
} from '../../../src/operator/kinds/rule/replay/replay-progress.ts';
import { replayCondition } from '../../../src/operator/kinds/rule/replay/replay-words.ts';

const NOW = Date.parse('2026-11-24T04:05:06.789Z');
const CAUSE = { generation: 3, request: undefined };
const start = (matched: number) => startProgress(CAUSE, { matched, nowMs: NOW });

const numbersOf = (given: Partial<ReplayNumbers>): ReplayNumbers => ({
  ...{
    observationCount: 0,
    currentIncidents: 0,
    proposedIncidents: 0,
    added: 0,
    removed: 0,
    refusedCount: 0,
  },
  ...given,
});
type Replayed = readonly [name: string, outcome: ReplayOutcome];
const replayed = (name: string, given: Partial<ReplayNumbers> = {}): Replayed => [
  name,
  { numbers: numbersOf(given) },
];
const omitted = (name: string, message: string): Replayed => [
  name,
  { omission: { reason: 'Refused', message } },
];
const progressOf = (outcomes: readonly Replayed[], matched = outcomes.length): RuleReplayStatus =>
  outcomes.reduce(
    (progress, [name, outcome]) => withOutcome(progress, { name, cursor: name }, outcome),
    start(matched),
  );

describe('the progress of a replay', () => {
  it('begins with the window of the thirty days before it, the same for all Monitors', () => {
    expect(start(10_000)).toMatchObject({
      generation: 3,
      since: '2026-10-25T04:05:06Z',
      until: '2026-11-24T04:05:06Z',
      progress: 'replayed 0 of 10,000',
      monitors: [],
    });
  });

  it('sums up all Monitors and shows the twenty with the greatest effect, whatever the order of replays', () => {
    const monitor = fc.record({
      added: fc.nat(3),
      removed: fc.nat(3),
      refusedCount: fc.nat(1),
      proposedIncidents: fc.nat(2),
      observationCount: fc.nat(50_000),
    });
    const history = fc
      .array(monitor, { maxLength: 45 })
      .map((all) => all.map((numbers, index) => replayed(`m${String(index).padStart(2, '0')}`, numbers)))
      .chain((all) => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })));
    fc.assert(
      fc.property(history, ([all, shuffled]) => {
        const [one, other] = [progressOf(all), progressOf(shuffled)];
        expect([other.total, other.monitors]).toEqual([one.total, one.monitors]);
        expect(one.monitors).toHaveLength(Math.min(all.length, 20));
        expect(one.replayed).toBe(all.length);
        const effect = ({ added, removed }: ReplayNumbers) => added + removed;
        const least = Math.min(...one.monitors.map(effect));
        const hidden = all.filter(([name]) => !one.monitors.some((shown) => shown.name === name));
        for (const [, outcome] of hidden)
          expect('numbers' in outcome && effect(outcome.numbers)).toBeLessThanOrEqual(least);
        expect(one.total.added).toBe(
          all.reduce((sum, [, outcome]) => sum + ('numbers' in outcome ? outcome.numbers.added : 0), 0),
        );
      }),
    );
  });

  it('counts Monitors that could not be replayed by their reason, and shows eight reasons', () => {
    const reasons = Array.from({ length: 10 }, (_, index) => omitted(`m${index}`, `No ${index}.`));
    const { omitted: count, omissions, progress } = progressOf([...reasons, omitted('again', 'No 0.')], 20);
    expect([count, omissions?.length, progress]).toEqual([11, 8, 'replayed 11 of 20']);
    expect(omissions?.[0]).toEqual({ reason: 'Refused', message: 'No 0.', count: 2, monitor: 'm0' });
  });

  it('is of one generation and one request', () => {
    const progress = startProgress({ generation: 3, request: 'a' }, { matched: 1, nowMs: NOW });
    expect(isOf(progress, { generation: 3, request: 'a' })).toBe(true);
    expect(isOf(progress, { generation: 4, request: 'a' })).toBe(false);
    expect(isOf(progress, { generation: 3, request: 'b' })).toBe(false);
    expect(isOf(start(1), CAUSE)).toBe(true);
  });

  it('has no place to go on at once it is finished', () => {
    const finished = finishProgress(progressOf([replayed('a')]), NOW + 5_000);
    expect(finished.finishedAt).toBe('2026-11-24T04:05:11Z');
    expect(finished).not.toHaveProperty('cursor');
  });
});

describe('the condition Ready of a replay', () => {
  const finish = (progress: RuleReplayStatus) => replayCondition(finishProgress(progress, NOW), undefined);

  it('is unknown while the replay goes on, and says how far it is and what it waits for', () => {
    const progress = withMatched(progressOf([replayed('a')]), 10_000);
    expect(replayCondition(progress, undefined)).toEqual({
      type: 'Ready',
      status: 'Unknown',
      reason: 'Replaying',
      message: 'Replayed 1 of 10,000 Monitors.',
    });
    expect(replayCondition(progress, 'Waits.').message).toBe('Replayed 1 of 10,000 Monitors. Waits.');
  });

  it('says after the replay what would have happened, and which Monitors that leaves out', () => {
    const outcomes = [
      replayed('a', { observationCount: 1_440, currentIncidents: 1, proposedIncidents: 3, added: 2 }),
      replayed('b', { observationCount: 60, refusedCount: 1 }),
      omitted('c', 'The plan has no ratios.'),
    ];
    expect(finish(progressOf(outcomes))).toEqual({
      type: 'Ready',
      status: 'True',
      reason: 'Replayed',
      message:
        'Replayed 2 of 3 Monitors, 1,500 observations of the 30 days before 2026-11-24T04:05:06Z: 3 incidents in place of 1, 2 added and 0 removed. The definition would have refused 1 beat. 1 Monitor left out: c, The plan has no ratios.',
    });
  });

  it('is false where no Monitor could be replayed: nobody takes that for a rule without effect', () => {
    expect(finish(progressOf([omitted('c', 'The plan has no ratios.')]))).toMatchObject({
      status: 'False',
      reason: 'NotReplayed',
    });
  });
});

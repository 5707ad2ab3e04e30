// `rollout: Replay`: the definition is replayed on each Monitor that the Rule matches, and `status.replay` says what would
// have happened. Nothing is changed. A pass shows how far that is; replay-runs.ts does it.
import type { RuleReplayStatus } from '../../../../contract/crd/rule-replay.ts';
import { objectKey } from '../../../../kube/kube-object.ts';
import type { ObjectCache } from '../../../known/object-cache.ts';
import type { OperatorContext } from '../../../operator-context.ts';
import type { Enqueue } from '../../../pass/kind.ts';
import { ANNOTATION } from '../../../resources/names.ts';
import type { MonitorObject } from '../../monitor/monitor-object.ts';
import { proposalOf } from '../definition.ts';
import { matches } from '../matching.ts';
import { type Rollout, type RuleEvent, type RuleFindings, refusalOf } from '../rollout.ts';
import type { RuleObject } from '../rule-object.ts';
import { formatCount } from '../words.ts';
import type { ReplayProposal } from './replay-calls.ts';
import { isOf } from './replay-progress.ts';
import { ReplayRuns } from './replay-runs.ts';
import { targetStateOf } from './replay-targets.ts';
import { replayCondition } from './replay-words.ts';

export interface ReplaySources {
  rules: ObjectCache<RuleObject>;
  monitors: ObjectCache<MonitorObject>;
}

/** Of the annotation: longer ones are cut. */
const MAX_REQUEST = 256;

export class ReplayRollout implements Rollout {
  readonly #sources: ReplaySources;
  readonly #runs: ReplayRuns;
  #enqueue: Enqueue<RuleObject> | undefined;

  constructor(context: Pick<OperatorContext, 'api' | 'log'>, sources: ReplaySources) {
    this.#sources = sources;
    const { monitors } = sources;
    this.#runs = new ReplayRuns(context, {
      monitorsOf: (rule) => this.#monitorsOf(rule),
      stateOf: ({ metadata }, { measurementKey }) => {
        const monitor = monitors.get(objectKey({ metadata }));
        if (monitor === undefined || monitor.metadata.uid !== metadata.uid) return undefined;
        return targetStateOf(monitor, monitors.memoryOf(monitor).held, measurementKey);
      },
      changed: (key) => this.#changed(key),
    });
  }

  watch(enqueue: Enqueue<RuleObject>): void {
    this.#enqueue = enqueue;
    this.#sources.rules.subscribe(({ type, key, object }) => {
      if (type === 'deleted' || object.spec.rollout !== 'Replay') this.#runs.forget(key);
    });
  }

  async run(rule: RuleObject): Promise<RuleFindings> {
    const proposal = replayProposalOf(rule);
    if ('refused' in proposal) return refusalOf(rule, proposal.refused, NOTHING_APPLIED);
    const before = rule.status?.replay;
    const followed = this.#runs.follow(rule, proposal, before);
    if (followed === undefined) {
      const fields = { ...NOTHING_APPLIED, replay: undefined, display: { monitors: '0' } };
      return { fields, conditions: [NO_MONITOR], removed };
    }
    const { progress, waitsFor } = followed;
    const condition = replayCondition(progress, waitsFor);
    const isNews = progress.finishedAt !== undefined && !isSameEnd(before, progress);
    const reason = condition.status === 'True' ? 'Replayed' : 'Refused';
    const events: RuleEvent[] = isNews ? [{ reason, note: condition.message }] : [];
    const fields = {
      ...NOTHING_APPLIED,
      replay: progress,
      display: { monitors: formatCount(progress.matched) },
    };
    return { fields, conditions: [condition], removed, events };
  }

  async stop(): Promise<unknown> {
    return await this.#runs.stop();
  }

  #monitorsOf(rule: RuleObject): MonitorObject[] {
    const { namespace = '' } = rule.metadata;
    return this.#sources.monitors.listInNamespace(namespace).filter((monitor) => matches(rule, monitor));
  }

  #changed(key: string): void {
    const rule = this.#sources.rules.get(key);
    if (rule !== undefined) this.#enqueue?.([rule]);
  }
}

/** The replay begins as soon as a Monitor comes, so nothing is wrong yet. */
const NO_MONITOR = {
  type: 'Ready',
  status: 'Unknown',
  reason: 'NoMonitors',
  message: 'The Rule matches no Monitor. The replay begins when it does.',
} as const;

/** What the other rollout says. */
const NOTHING_APPLIED = { monitors: undefined };
const removed = ['Conflict'];

/** `refused`: why the API would refuse the definition on every monitor. */
function replayProposalOf(rule: RuleObject): ReplayProposal | { refused: string } {
  const proposal = proposalOf(rule);
  if ('refused' in proposal) return proposal;
  const { metadata } = rule;
  return {
    uid: metadata.uid ?? '',
    generation: metadata.generation ?? 0,
    request: metadata.annotations?.[ANNOTATION.replay]?.slice(0, MAX_REQUEST),
    ...proposal,
  };
}

function isSameEnd(before: RuleReplayStatus | undefined, now: RuleReplayStatus): boolean {
  return before !== undefined && isOf(before, now) && before.finishedAt === now.finishedAt;
}

// Rules that the cluster has and the cache does not: the watch of an operator that has just begun to lead may be behind, and a
// Rule that it has not seen is not gone. Asked once for each Rule that a Monitor has something from and that is missing.
import type { KubeClient } from '../../../../kube/kube-client.ts';
import type { ObjectCache } from '../../../known/object-cache.ts';
import type { AppliedRule } from '../../rule/apply/given-rules.ts';
import { RULES, type RuleObject } from '../../rule/rule-object.ts';
import type { MonitorObject } from '../monitor-object.ts';

/** Of the UIDs that are known to be gone; more of them are asked for again. */
const MAX_GONE = 1_000;

export class UnseenRules {
  readonly #kube: Pick<KubeClient, 'find'>;
  readonly #rules: ObjectCache<RuleObject>;
  /** UIDs never come back. */
  readonly #gone = new Set<string>();

  constructor(kube: Pick<KubeClient, 'find'>, rules: ObjectCache<RuleObject>) {
    this.#kube = kube;
    this.#rules = rules;
  }

  /** What Rules that nobody has seen go have applied to the Monitor. Throws KubeError. */
  async find({ metadata: { namespace = '' }, status }: MonitorObject): Promise<AppliedRule[]> {
    const unseen: AppliedRule[] = [];
    for (const applied of status?.appliedRules ?? []) {
      const { name, uid = '' } = applied;
      const isSeen = this.#rules.get(`${namespace}/${name}`)?.metadata.uid === uid;
      if (!isSeen && !(await this.#isGone({ namespace, name }, uid))) unseen.push(applied);
    }
    return unseen;
  }

  async #isGone(ref: { namespace: string; name: string }, uid: string): Promise<boolean> {
    if (this.#gone.has(uid)) return true;
    const found = await this.#kube.find(RULES, ref);
    const isThere = found?.metadata.uid === uid && found.metadata.deletionTimestamp === undefined;
    if (isThere) return false;
    if (this.#gone.size >= MAX_GONE) this.#gone.clear();
    this.#gone.add(uid);
    return true;
  }
}

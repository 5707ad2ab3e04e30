// Applies what Rules give to a monitor, and takes back what they give no more, beside its own spec: a Rule that the API refuses
// harms neither the Monitor nor the other Rules, and is shown in the status of both.
import { ApiProblem, classify } from '../../../../client/api-problem.ts';
import { MAX_REFUSAL_MESSAGE } from '../../../../contract/crd/monitor-resource.ts';
import { MAX_MEASUREMENTS } from '../../../../contract/resources/measurement-rule.ts';
import { jitterMs } from '../../../../kube/backoff.ts';
import { problemText } from '../../../resources/problem-text.ts';
import { type AppliedRule, type GivenRule, isApplied, isSameRule } from '../../rule/apply/given-rules.ts';
import { type DesiredMonitor, withoutRules } from '../desired-monitor.ts';
import type { ExternalMonitor, RuleOutcomes } from '../external-monitor.ts';
import type { MonitorStatusFields } from '../monitor-object.ts';
import { type MonitorPatch, splitPatch, withWholeRatios } from '../monitor-plan.ts';
import type { MonitorWork } from '../monitor-work.ts';
import { planRule } from './rule-plan.ts';

type RefusedRule = NonNullable<MonitorStatusFields['refusedRules']>[number];
type Measurements = NonNullable<MonitorPatch['measurements']>;

export interface AppliedRules extends RuleOutcomes {
  /** Measurements whose rule somebody had changed, for Events. */
  restored: string[];
}

export interface RefusalPace {
  /** What this pass applies is not what the last one has applied: the API may take now what it refused. */
  isChanged: boolean;
  /** Refusals that depend on the installation end without notice: they are tried again after this time, ±20 %. */
  retryMs: number;
}

/**
 * Removes what Rules have applied and give no more, before the spec is applied: a refusal of the spec keeps no deleted Rule
 * alive, and the spec gets the room that it needs. Throws ApiProblem.
 */
export async function takeBackRules({
  object,
  desired,
  external,
  ownedBefore = [],
}: MonitorWork): Promise<void> {
  const given = new Set(splitByRoom(desired).rules.map(({ measurementKey }) => measurementKey));
  const gone = (object.status?.appliedRules ?? [])
    .map(({ measurementKey }) => measurementKey)
    .filter((key) => {
      const isGiven = given.has(key) || Object.hasOwn(desired.spec.measurements ?? {}, key);
      // The status alone proves nothing: it must be the object's, and the monitor must have it.
      return !isGiven && ownedBefore.includes(`measurements.${key}`) && hasRule(external, key);
    });
  await removeRules(external, gone);
}

/**
 * Makes the monitor have its given rules, in one call where they fit into one, or each by itself where the API refuses them
 * together. Throws ApiProblem where the same call may succeed later.
 */
export async function applyRules(
  work: MonitorWork,
  { isChanged, retryMs }: RefusalPace,
): Promise<AppliedRules> {
  const { object, desired, external, memory } = work;
  const isTried = isChanged || isRetryDue(work, retryMs);
  const { rules, surplus } = splitByRoom(desired);
  const { patches, refused, restored } = planAll(
    work,
    rules,
    isTried ? [] : (object.status?.refusedRules ?? []),
  );
  const problems = await sendAll(external, patches);
  for (const [given, problem] of problems) refused.push(refusalOf(given, problem.code, problemText(problem)));
  refused.push(...surplus.map((given) => refusalOf(given, 'TooManyMeasurements', NO_ROOM)));
  await removeFormer(work, refused);
  if (refused.length === 0) memory.rulesRetryAtMs = undefined;
  else if (isTried || problems.size > 0) memory.rulesRetryAtMs = later(retryMs);
  const appliedRules = rules.flatMap((given) => appliedAfter(work, given, refused));
  const hasApplied = (key: string) => appliedRules.some(({ measurementKey }) => measurementKey === key);
  const lost = refused.map(({ measurementKey }) => measurementKey).filter((key) => !hasApplied(key));
  work.desired = withoutRules(desired, lost);
  return {
    appliedRules: appliedRules.length === 0 ? undefined : appliedRules,
    refusedRules: refused.length === 0 ? undefined : refused,
    restored,
  };
}

/** True if a refused rule may be tried again. After a restart that is not known, and each waits as if it had just been refused. */
export function isRetryDue(
  { object, memory }: Pick<MonitorWork, 'object' | 'memory'>,
  retryMs: number,
): boolean {
  if (object.status?.refusedRules === undefined) return false;
  memory.rulesRetryAtMs ??= later(retryMs);
  return performance.now() >= memory.rulesRetryAtMs;
}

const later = (retryMs: number): number => performance.now() + jitterMs(retryMs);

const NO_ROOM = `The spec of the Monitor leaves no room: a monitor has rules for at most ${MAX_MEASUREMENTS} measurements.`;

/** The spec comes first, then as many given rules as there is room for. */
function splitByRoom({ spec, rules }: DesiredMonitor): Record<'rules' | 'surplus', readonly GivenRule[]> {
  const room = Math.max(0, MAX_MEASUREMENTS - Object.keys(spec.measurements ?? {}).length);
  return { rules: rules.slice(0, room), surplus: rules.slice(room) };
}

interface AllPlans {
  patches: Map<GivenRule, Measurements>;
  refused: RefusedRule[];
  restored: string[];
}

/** `known`: what is not tried again, because the API has just refused it. */
function planAll(
  { object, external }: MonitorWork,
  rules: readonly GivenRule[],
  known: readonly RefusedRule[],
): AllPlans {
  const plans: AllPlans = { patches: new Map(), refused: [], restored: [] };
  for (const given of rules) {
    const plan = planRule(given, external.record);
    const before = known.find((one) => isSameRule(one, given));
    if (plan.kind === 'invalid') plans.refused.push(refusalOf(given, 'InvalidDefinition', plan.message));
    if (plan.kind !== 'patch') continue;
    if (before !== undefined) {
      plans.refused.push(before);
      continue;
    }
    plans.patches.set(given, withWholeRatios({ [given.measurementKey]: plan.patch }));
    if (isApplied(object, given)) plans.restored.push(given.measurementKey);
  }
  return plans;
}

function refusalOf(given: GivenRule, reason: string, message: string): RefusedRule {
  return { ...asApplied(given), reason, message: message.slice(0, MAX_REFUSAL_MESSAGE) };
}

/** The refusals of the API. */
async function sendAll(
  external: ExternalMonitor,
  patches: ReadonlyMap<GivenRule, Measurements>,
): Promise<Map<GivenRule, ApiProblem>> {
  const problems = new Map<GivenRule, ApiProblem>();
  const measurements = Object.assign({}, ...patches.values()) as Measurements;
  for (const part of splitPatch({ measurements })) {
    const givens = [...patches.keys()].filter(({ measurementKey }) =>
      Object.hasOwn(part.measurements ?? {}, measurementKey),
    );
    const problem = await send(external, part);
    if (problem === undefined) continue;
    const [only, ...others] = givens;
    if (only !== undefined && others.length === 0) {
      problems.set(only, problem);
      continue;
    }
    for (const given of givens) {
      const alone = await send(external, { measurements: patches.get(given) });
      if (alone !== undefined) problems.set(given, alone);
    }
  }
  return problems;
}

/** Why the API refuses it for good. */
async function send(external: ExternalMonitor, patch: MonitorPatch): Promise<ApiProblem | undefined> {
  try {
    await external.run({ call: 'patch', patch });
    return undefined;
  } catch (error) {
    if (error instanceof ApiProblem && classify(error) === 'permanent') return error;
    throw error;
  }
}

/** What another Rule has applied goes with it, also where the API refuses the one that takes its place. */
async function removeFormer(
  { object, external }: MonitorWork,
  refused: readonly RefusedRule[],
): Promise<void> {
  const applied = object.status?.appliedRules ?? [];
  const isFormer = ({ uid, measurementKey }: RefusedRule) =>
    applied.some((one) => one.measurementKey === measurementKey && one.uid !== uid);
  const keys = refused.filter(isFormer).map(({ measurementKey }) => measurementKey);
  await removeRules(
    external,
    keys.filter((key) => hasRule(external, key)),
  );
}

async function removeRules(external: ExternalMonitor, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const measurements = Object.fromEntries(keys.map((key) => [key, null]));
  await external.run({ call: 'patch', patch: { measurements } });
}

function hasRule({ record }: ExternalMonitor, measurementKey: string): boolean {
  return Object.hasOwn(record.measurements, measurementKey);
}

/** Of a refused rule what the same Rule had applied before, which is left as it is. */
function appliedAfter(
  { object }: MonitorWork,
  given: GivenRule,
  refused: readonly RefusedRule[],
): AppliedRule[] {
  if (!refused.some((one) => isSameRule(one, given))) return [asApplied(given)];
  const { measurementKey, uid } = given;
  const applied = object.status?.appliedRules ?? [];
  return applied.filter((one) => one.measurementKey === measurementKey && one.uid === uid);
}

function asApplied({ name, uid, measurementKey, definitionHash }: GivenRule): Required<AppliedRule> {
  return { name, uid, measurementKey, definitionHash };
}
